/** `crmsync redis` on each form of REDIS_URL: a copy, its way back, what a reset deletes, and the end of an old state. */
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { expect, it, type TestContext } from "vitest";
import { openRedis } from "../../src/base/open-redis.ts";
import { readRedisTls } from "../../src/base/redis-tls.ts";
import { ownKeys } from "../../src/core/state/state-copy.ts";
import { STATE_VERSION } from "../../src/core/state/state-version.ts";
import { makeCertificates } from "../support/certificates.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { ownPort } from "../support/own-port.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { ownCluster, ownSentinels } from "../support/redis-topologies.ts";
import { requireTool } from "../support/requirements.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";

const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };
const PREFIX = "{a[c]me*}";

type Env = Readonly<Record<string, string>>;
type Form = AsyncDisposable & { readonly env: Env };

const stackOf = (env: Env, ...parts: AsyncDisposable[]): Form => ({
  env,
  async [Symbol.asyncDispose]() {
    for (const part of parts) await part[Symbol.asyncDispose]();
  },
});

const FORMS: Readonly<Record<string, (context: TestContext) => Promise<Form>>> = {
  "a password without a user": async () => {
    const redis = await ownRedis();
    await redis.client.config("SET", "requirepass", "se%cret");
    const { port } = new URL(redis.url);
    return stackOf({ REDIS_URL: `redis://:se%25cret@127.0.0.1:${port}` }, redis);
  },
  "a socket": async () => {
    const dir = await tempDir();
    const socket = join(dir.path, "redis.sock");
    return stackOf({ REDIS_URL: `unix://${socket}` }, await ownRedis({ unixsocket: socket }), dir);
  },
  "TLS with an authority of one's own": async (context) => {
    const dir = await tempDir();
    const { ca, server } = makeCertificates(await requireTool(context, OPENSSL), dir.path);
    const port = await ownPort();
    const redis = await ownRedis({
      "tls-port": String(port),
      "tls-ca-cert-file": ca,
      "tls-cert-file": server.cert,
      "tls-key-file": server.key,
      "tls-auth-clients": "no",
    });
    return stackOf({ REDIS_URL: `rediss://127.0.0.1:${port}`, REDIS_CA_FILE: ca }, redis, dir);
  },
  Sentinels: async () => {
    const group = await ownSentinels();
    return stackOf({ REDIS_URL: group.url }, group);
  },
  "a Cluster": async () => {
    const group = await ownCluster();
    return stackOf({ REDIS_URL: group.url }, group);
  },
};

async function crmsync(env: Env, ...args: string[]) {
  await using command = localCrmsync(["redis", ...args], { env: { QUEUE_PREFIX: PREFIX, ...env } });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

function connect({ REDIS_URL: url = "", REDIS_CA_FILE }: Env): Redis {
  const tls = readRedisTls({ REDIS_CA_FILE }, url.startsWith("rediss"), []);
  return openRedis({ url, prefix: PREFIX, tls });
}

const ODD = `${PREFIX}:staged:O'Neil "7"\n*`;
const KEPT = [`${PREFIX}:quota:log`, `${PREFIX}:audit:acts`];
const NAMES = [ODD, `${PREFIX}:ledger`, `${PREFIX}:line:live`, `${PREFIX}:seen`];

async function fill(redis: Redis): Promise<void> {
  await redis.hset(`${PREFIX}:state-version`, "version", STATE_VERSION);
  await redis.hset(ODD, "version", "1", "state", "{}");
  for (let n = 0; n < 600; n += 1)
    redis.hset(`${PREFIX}:ledger`, `code ${n}`, `row ${n}`).catch(() => {});
  await redis.zadd(`${PREFIX}:line:live`, 1.5, "a", 2, "b");
  await redis.set(`${PREFIX}:seen`, Buffer.from([0, 255, 10]), "EX", 1000);
  await redis.zadd(`${PREFIX}:quota:log`, 1, "x");
  await redis.rpush(`${PREFIX}:audit:acts`, "1 {}");
}

/** A short name of each value, and the rest of its time in thousands of seconds. */
const valuesOf = async (redis: Redis, names: readonly string[]): Promise<string[]> =>
  Promise.all(
    names.map(async (name) => {
      const isHash = (await redis.type(name)) === "hash";
      const value = isHash
        ? JSON.stringify(
            Object.entries(await redis.hgetall(name))
              .map(String)
              .toSorted(),
          )
        : ((await redis.dumpBuffer(name)) ?? "");
      return `${hash("sha256", value)} ${Math.ceil((await redis.ttl(name)) / 1000)}`;
    }),
  );

it.for(Object.keys(FORMS))("redis ping, backup, reset, restore: %s", async (name, context) => {
  await using form = await FORMS[name]?.(context);
  const env = form?.env ?? {};
  await using dir = await tempDir();
  const redis = connect(env);
  using stack = new DisposableStack();
  stack.defer(() => redis.disconnect());
  await waitFor(async () => (await redis.ping()) === "PONG", { what: "Redis answers" });
  await fill(redis);
  const before = await valuesOf(redis, NAMES);
  const file = join(dir.path, "a copy");

  expect((await crmsync(env, "ping")).out).toMatch(
    / answers in .* ms: .*master, \d replicas?; state version \d+, 0 processes run$/,
  );
  expect((await crmsync(env, "call", "hget", `${PREFIX}:state-version`, "version")).out).toBe(
    String(STATE_VERSION),
  );
  expect(await crmsync(env, "backup", file)).toMatchObject({ code: 0, err: "" });
  // Redis takes writes again.
  expect(await redis.expire(`${PREFIX}:seen`, 1000)).toBe(1);
  expect((await crmsync(env, "restore", file, "--apply")).err).toMatch(/has keys of .* already/);

  expect((await crmsync(env, "reset")).out).toBe("would delete 7 keys; give --apply to do it");
  expect(await valuesOf(redis, NAMES)).toEqual(before);
  expect((await crmsync(env, "reset", "--apply")).out).toBe("7 keys deleted");
  expect(await redis.exists(...NAMES)).toBe(0);
  expect(await redis.exists(...KEPT)).toBe(2);
  await redis.del(...KEPT);

  expect((await crmsync(env, "restore", file)).out).toMatch(/^would bring 9 keys of /);
  expect(await redis.exists(...NAMES)).toBe(0);
  expect((await crmsync(env, "restore", file, "--apply")).out).toMatch(/^9 keys of .* restored/);
  expect(await valuesOf(redis, NAMES)).toEqual(before);

  const moved = join(dir.path, "moved");
  expect((await crmsync(env, "backup", moved, "--move")).out).toMatch(/^would copy 9 keys /);
  expect((await crmsync(env, "backup", moved, "--move", "--apply")).code).toBe(0);
  const refused = await crmsync(env, "backup", file.replace("copy", "third"));
  expect(refused).toMatchObject({ code: 78 });
  expect(refused.err).toContain("the state was moved from this Redis to another one at 20");
  await crmsync(env, "reset", "--apply");
  expect((await crmsync(env, "restore", moved, "--apply")).code).toBe(0);
  expect(await redis.hgetall(`${PREFIX}:state-version`)).toEqual({
    version: String(STATE_VERSION),
  });
  const unwritten = await crmsync(env, "reset", "--all", "--apply");
  expect(unwritten.err).toContain("the audit trail must have a line of this: set AUDIT_LOG");
  expect(await valuesOf(redis, NAMES)).toEqual(before);
  const trail = join(dir.path, "audit.log");
  const all = await crmsync({ ...env, AUDIT_LOG: trail }, "reset", "--all", "--apply");
  expect(all.out).toBe("9 keys deleted");
  for await (const found of ownKeys(redis, PREFIX)) expect(found.map(String)).toEqual([]);
  const lines = (await readFile(trail, "utf8")).trim().split("\n");
  expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ act: "redis.reset", all: true });
});

it("a move while changes wait: the new Redis sends them, and the old one never again", async () => {
  await using old = await ownRedis();
  await using next = await ownRedis();
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const service = { SERVICE_BASE_URL: sandbox.url, SERVICE_TOKEN: sandbox.token };
  const env = { REDIS_URL: old.url, HTTP_PORT: "0", QUEUE_PREFIX: PREFIX, ...service };
  const file = join(dir.path, "state");
  {
    await using daemon = await localDaemon(env);
    await using pause = localCrmsync(["bulk", "pause"], { env });
    await pause.ended;
    await daemon.push([personEvent("7", {}, { lane: "bulk" })]);
    await waitFor(async () => (await old.client.exists(`${PREFIX}:staged:7`)) === 1, {
      what: "it waits",
    });
    const ids = await old.client.hkeys(`${PREFIX}:heartbeats`);
    const id = ids.find((one) => !one.endsWith("@"));
    for (const args of [
      ["reset", "--apply"],
      ["backup", file, "--move", "--apply"],
    ]) {
      const refused = await crmsync(env, ...args);
      expect(refused.code).toBe(1);
      expect(refused.err).toContain(`1 process of crmsync on this Redis: ${id}. Stop`);
    }
    expect((await crmsync(env, "backup", `${file}.hot`)).code).toBe(0);
  }
  expect((await crmsync(env, "backup", file, "--move", "--apply")).code).toBe(0);
  const moved = { ...env, REDIS_URL: next.url };
  expect((await crmsync(moved, "restore", file, "--apply")).code).toBe(0);
  {
    await using _daemon = await localDaemon(moved);
    await using resume = localCrmsync(["bulk", "resume"], { env: moved });
    await resume.ended;
    await waitFor(async () => (await sandbox.relations()).has("7"), { what: "it was sent" });
  }
  await old.kill();
  await old.start();
  await using late = spawnCrmsync(["start"], { env });
  expect((await late.ended).code).toBe(78);
  expect(late.stderr.join("\n")).toContain(
    "the state was moved from this Redis to another one at 20",
  );
});

it("the embedded Redis is started for the command while its daemon is stopped", async () => {
  await using dir = await tempDir();
  const env = { DATA_DIR: dir.path, HTTP_PORT: "0", QUEUE_PREFIX: PREFIX };
  {
    await using daemon = await localDaemon(env, new Set(["http", "intake"]));
    await daemon.push([personEvent("1", { firstName: "" })]);
    await waitUntilSettled(daemon);
  }
  const file = join(dir.path, "copy");
  expect(await crmsync(env, "backup", file)).toMatchObject({ code: 0, err: "" });
  expect((await crmsync(env, "reset", "--apply")).out).toMatch(/^\d+ keys deleted$/);
  expect((await crmsync(env, "restore", file, "--apply")).code).toBe(0);
  await using dead = localCrmsync(["dead", "list"], { env });
  expect((await dead.ended).code).toBe(1);
  expect(dead.stderr.join("\n")).toContain("no daemon is running");
});
