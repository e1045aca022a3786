/** Redis with replicas that take over: the primary of our keys is killed while events arrive. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, type TestContext } from "vitest";
import { Inbox } from "../../src/core/event/inbox.ts";
import { ownPort } from "../support/own-port.ts";
import { openRedis, openWorkRedis } from "../../src/base/open-redis.ts";
import { makeCertificates } from "../support/certificates.ts";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type DaemonProcess,
} from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import type { OwnRedis } from "../support/own-redis.ts";
import { ownCluster, ownSentinels, type RedisGroup } from "../support/redis-topologies.ts";
import { requireTool } from "../support/requirements.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RULES = join(import.meta.dirname, "../../deploy/redis/acl-rules.txt");
const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };
const PREFIX = "{acme}";

/** Lets only the user crmsync work, with the rights that we recommend. @returns the URL with its name. */
async function allowOnlyCrmsync({ servers, url }: RedisGroup): Promise<string> {
  const rules = readFileSync(RULES, "utf8").trim().replaceAll("{crmsync}", PREFIX).split(" ");
  for (const { client } of servers) {
    await client.acl("SETUSER", "crmsync", "on", ">a%b", ...rules);
  }
  return url.replace("://", "://crmsync:a%25b@");
}

/** A Cluster that serves TLS beside its plain ports, and the settings to use it. */
async function clusterWithTls(context: TestContext, dir: string) {
  const { ca, server } = makeCertificates(await requireTool(context, OPENSSL), dir);
  const group = await ownCluster(async () => ({
    "tls-port": String(await ownPort()),
    "tls-ca-cert-file": ca,
    "tls-cert-file": server.cert,
    "tls-key-file": server.key,
    "tls-auth-clients": "no",
    // Otherwise the nodes announce their plain ports to clients that use TLS.
    "tls-cluster": "yes",
    "tls-replication": "yes",
  }));
  const [first] = group.servers;
  const port = await first?.client.config("GET", "tls-port");
  return {
    group,
    url: `rediss+cluster://127.0.0.1:${String(port?.[1])}`,
    env: { REDIS_CA_FILE: ca },
  };
}

async function withSentinels() {
  const group = await ownSentinels();
  return { group, url: group.url, env: {} };
}

const SENDERS = 3;
const BEFORE = 40;
const AFTER = 40;

/** One failover is tested here: a busy machine may cause another one while no daemon runs. */
async function waitForCopies({ client }: OwnRedis): Promise<void> {
  await client.set(`${PREFIX}:test`, "1");
  const all = async () =>
    Number(/connected_slaves:(\d+)/.exec(await client.info("replication"))?.[1]);
  await waitFor(async () => (await client.wait(await all(), 1000)) >= (await all()), {
    what: "the replicas have a copy",
  });
}

/** Sends until it is stopped; an event that is not accepted is sent again, as a CRM does. */
function startLoad(daemon: DaemonProcess) {
  const accepted = new Map<string, string>();
  const over = new AbortController();
  let count = 0;
  const senders = Array.from({ length: SENDERS }, async (_, sender) => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      const crmCode = n % 3 === 0 ? `again${sender}` : `new${sender}x${n}`;
      const firstName = `v${n}`;
      const event = personEvent(crmCode, { firstName });
      await waitFor(async () => (await daemon.push([event])).ok, { what: "it is accepted" });
      accepted.set(crmCode, firstName);
      count += 1;
    }
  });
  return {
    accepted,
    count: () => count,
    async stop() {
      over.abort();
      await Promise.all(senders);
    },
  };
}

it.for([
  ["a Cluster with TLS", clusterWithTls],
  ["Sentinels", withSentinels],
] as const)(
  "%s: the primary is killed under load, and nothing is lost",
  async ([, start], context) => {
    await using dir = await tempDir();
    const redis = await start(context, dir.path);
    await using group = redis.group;
    await using sandbox = await startSandbox();
    const url = await allowOnlyCrmsync({ ...group, url: redis.url });
    const env = envOn({ url }, sandbox, { ...redis.env, QUEUE_PREFIX: PREFIX });
    const crmsync = async (...args: string[]) => {
      const { stdout, stderr, ended } = localCrmsync(args, { env });
      const { code } = await ended;
      return { code, text: [...stdout, ...stderr].join("\n") };
    };
    const held = async () => {
      const relations = await sandbox.relations();
      return new Map([...relations].map(([crmCode, { firstName }]) => [crmCode, firstName]));
    };
    const { accepted, killed } = await (async () => {
      await using daemon = await startDaemon(env);
      const load = startLoad(daemon);
      await waitFor(() => load.count() >= BEFORE, { what: "load" });
      const primary = await group.primaryOf(PREFIX);
      await primary.kill();
      const atKill = load.count();
      await waitFor(() => load.count() >= atKill + AFTER, { what: "load on the new primary" });
      await load.stop();
      await waitUntilSettled(daemon);
      expect(await held()).toEqual(load.accepted);
      await waitForCopies(await group.primaryOf(PREFIX));
      return { accepted: load.accepted, killed: primary };
    })();
    expect(await group.primaryOf(PREFIX)).not.toBe(killed);
    await killed.start();

    // A new start finds everything where it was; the former primary is a replica by now.
    await using daemon = await startDaemon(env);
    const file = join(dir.path, "events.ndjson");
    const last = [personEvent("pushed"), personEvent("bad", { lastName: "" })];
    writeFileSync(file, last.map((event) => `${JSON.stringify(event)}\n`).join(""));
    expect(await crmsync("push", file)).toMatchObject({ code: 0 });
    await waitUntilSettled(daemon);
    await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, {
      what: "a dead letter",
    });
    expect(await held()).toEqual(new Map([...accepted, ["pushed", "Ada"]]));
    const status = JSON.parse((await crmsync("status", "--json")).text) as Record<string, unknown>;
    expect(status).toMatchObject({ deadLetters: { total: 1 } });
    expect((await crmsync("dead", "list")).text).toContain("lastName");
    const doctor = await crmsync("doctor");
    expect(doctor.text).not.toMatch(/✗/);
    expect(doctor.text).toMatch(/redis replicas/);
    const logs = await Promise.all(group.servers.map(({ client }) => client.acl("LOG")));
    const denied = (logs as unknown[][][])
      .flat()
      .map((entry) => entry[entry.indexOf("object") + 1]);
    expect(new Set(denied)).toEqual(new Set(["scan", "config|get"]));
  },
);

it("a hash slot moves to another node: the commands follow", async () => {
  await using group = await ownCluster();
  const redis = openWorkRedis({ url: group.url, prefix: PREFIX });
  const over = new AbortController();
  let count = 0;
  const counting = (async () => {
    for (; !over.signal.aborted; count += 1) {
      await redis.incr(`${PREFIX}:count`);
      // A key that is not there yet is answered by ASK meanwhile.
      await redis.set(`${PREFIX}:${count}`, count);
    }
  })();
  const from = await group.primaryOf(PREFIX);
  const to = group.servers.slice(0, 3).find((server) => server !== from);
  if (to === undefined) throw new Error("no other node");
  const slot = await from.client.cluster("KEYSLOT", PREFIX);
  const [fromId, toId] = [await from.client.cluster("MYID"), await to.client.cluster("MYID")];
  await waitFor(() => count > 50, { what: "keys" });
  await to.client.cluster("SETSLOT", slot, "IMPORTING", fromId);
  await from.client.cluster("SETSLOT", slot, "MIGRATING", toId);
  const keysLeft = () => from.client.cluster("GETKEYSINSLOT", slot, 10);
  for (let keys = await keysLeft(); keys.length > 0; keys = await keysLeft()) {
    const target = ["127.0.0.1", new URL(to.url).port, "", "0", "5000", "REPLACE", "KEYS"];
    await from.client.call("MIGRATE", ...target, ...keys);
  }
  for (const { client } of [to, from]) {
    await client.cluster("SETSLOT", slot, "NODE", toId);
  }
  const moved = count;
  await waitFor(() => count > moved + 50, { what: "more keys, on the other node" });
  over.abort();
  await counting;
  expect(await to.client.get(`${PREFIX}:count`)).toBe(String(count));
  expect(await to.client.cluster("COUNTKEYSINSLOT", slot)).toBe(count + 1);
  redis.disconnect();
});

it("many tenants on a Cluster: each in one slot, spread over the nodes", async () => {
  await using group = await ownCluster();
  const prefixes = Array.from({ length: 12 }, (_, n) => `{tenant${n}}`);
  for (const prefix of prefixes) {
    const redis = openRedis({ url: group.url, prefix });
    const inbox = new Inbox(redis, prefix);
    await inbox.push([personEvent("1"), personEvent("2")]);
    await inbox.close();
    redis.disconnect();
  }
  const slotsOf = new Map<string, Set<number>>();
  const used = new Set<number>();
  for (const [node, { client }] of group.servers.slice(0, 3).entries()) {
    for (const key of await client.keys("*")) {
      const [tag = ""] = /^\{.*?\}/.exec(key) ?? [];
      const slot = await client.cluster("KEYSLOT", key);
      slotsOf.set(tag, (slotsOf.get(tag) ?? new Set()).add(slot));
      used.add(node);
    }
  }
  expect([...slotsOf.keys()].toSorted()).toEqual(prefixes.toSorted());
  expect([...slotsOf.values()].map(({ size }) => size)).toEqual(prefixes.map(() => 1));
  expect(used.size).toBe(3);
  // The doctor of one tenant looks at all nodes for changes that no process sends.
  const env = { REDIS_URL: group.url, QUEUE_PREFIX: "{tenant0}" };
  const doctor = localCrmsync(["doctor"], { env });
  await doctor.ended;
  const named = doctor.stdout.join("\n").matchAll(/changes wait under QUEUE_PREFIX (\S+),/g);
  expect(new Set([...named].map(([, prefix]) => prefix))).toEqual(new Set(prefixes.slice(1)));
  // A URL for a single Redis is refused with the remedy.
  const plain = group.servers[0]?.url ?? "";
  const status = localCrmsync(["status"], { env: { REDIS_URL: plain } });
  await status.line(/node of a Redis Cluster: let REDIS_URL begin with redis\+cluster:/);
  const start = ["start", "--sandbox"];
  await using daemon = spawnCrmsync(start, {
    env: { REDIS_URL: plain, HTTP_PORT: "0", SANDBOX_PORT: "0" },
  });
  await daemon.line(/node of a Redis Cluster: let REDIS_URL begin with redis\+cluster:/);
});
