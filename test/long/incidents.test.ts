/**
 * What an operator sees who only knows that no change arrives. Each incident happens for real, and
 * `status` and `doctor` must name its cause and an existing section of the runbook. A denied token,
 * an exhausted hour and an unreachable Redis are in status.test.ts; a read-only replica is in
 * redis-faults.test.ts.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, inject, it } from "vitest";
import { ROLES, type Role } from "../../src/core/state/heartbeats.ts";
import type { Check } from "../../src/operate/doctor/check.ts";
import type { Status } from "../../src/operate/status/status.ts";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, waitUntilSettled, type DaemonAccess } from "../support/crmsync.ts";
import { localDaemon, localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { people } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

const runbook = readFileSync(join(import.meta.dirname, "../../docs/runbook.md"), "utf8");
const anchors = new Set(
  [...runbook.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title.toLowerCase().replaceAll(" ", "-"),
  ),
);

interface Setup {
  readonly env: Readonly<Record<string, string>>;
  readonly sandbox: LocalSandbox;
  readonly daemon: DaemonAccess;
}

interface Incident {
  readonly what: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly roles?: readonly Role[];
  /** The ledger cannot be warmed before the incident. */
  readonly cold?: true;
  cause(setup: Setup): Promise<unknown>;
  /** Section of the runbook, and the sentence of the finding. */
  readonly section: string;
  readonly says: RegExp;
  /** What else the status must contain. */
  readonly status?: object;
  readonly doctor?: readonly [check: string, says: RegExp];
}

async function pause(name: string, { daemon, env }: Setup): Promise<void> {
  const prefix = env["QUEUE_PREFIX"] ?? "";
  const queue = new Queue(name, { connection: { url: daemon.redisUrl }, prefix });
  await queue.pause();
  await queue.close();
}

const HUBSPOT = {
  MAPPING: "hubspot",
  HUBSPOT_WEBHOOK_SECRET: "the-secret",
  HUBSPOT_TOKEN: "any",
  WEBHOOKS_PUBLIC_URL: "https://crmsync.example",
};

/** A webhook as HubSpot signs it. */
function hubspot({ daemon }: Setup, secret: string): Promise<Response> {
  const body = JSON.stringify([
    {
      eventId: 1,
      portalId: 1,
      occurredAt: Date.now(),
      subscriptionType: "contact.creation",
      objectId: 7,
    },
  ]);
  const at = String(Date.now());
  const signed = `POST${HUBSPOT.WEBHOOKS_PUBLIC_URL}/webhooks/hubspot${body}${at}`;
  const signature = createHmac("sha256", secret).update(signed).digest("base64");
  return fetch(`${daemon.url}/webhooks/hubspot`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-hubspot-signature-v3": signature,
      "x-hubspot-request-timestamp": at,
    },
    body,
  });
}

const INCIDENTS: readonly Incident[] = [
  {
    what: "the service denies our address",
    async cause({ sandbox, daemon }) {
      await armFault(sandbox, { fault: "blocked" });
      await daemon.push(people(5));
    },
    section: "crmsyncaddressdenied",
    says: /denies our address \S+ \(403\)/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["address_denied"] },
    doctor: ["address", /denied \(403\)/],
  },
  {
    what: "the service asks for a pause of half an hour, although quota is left",
    async cause({ sandbox, daemon }) {
      await armFault(sandbox, { fault: "rate-limit", seconds: 1800 });
      await daemon.push(people(5));
    },
    section: "crmsyncthrottled",
    says: /\(429\) until .* 9\d\d requests left: another program/,
    doctor: ["token", /the service answered 429, until/],
  },
  {
    what: "another program uses the same token",
    async cause({ sandbox, daemon }) {
      await armFault(sandbox, { fault: "rate-limit", seconds: 1, rateHeaders: false, times: 1 });
      await daemon.push(people(20));
    },
    section: "crmsyncpacingsteady",
    says: /429 that our own count did not expect/,
    status: { quota: { pacing: "steady" } },
  },
  {
    what: "the service is down",
    async cause({ sandbox, daemon }) {
      await sandbox[Symbol.asyncDispose]();
      await daemon.push(people(20));
    },
    section: "crmsyncserviceunavailable",
    says: /no usable reply \((ECONNREFUSED at [\d.]+:\d+|reset)\) since/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["unavailable"] },
    doctor: ["connection to the service", /ECONNREFUSED/],
  },
  {
    what: "an HTML page answers instead of the service",
    async cause({ sandbox, daemon }) {
      await armFault(sandbox, { fault: "error", status: 503, body: "html" });
      await daemon.push(people(20));
    },
    section: "crmsyncserviceunavailable",
    says: /no usable reply \(HTTP 503\) since/,
    doctor: ["service", /HTTP 503/],
  },
  {
    what: "the service's name is wrong",
    env: { SERVICE_BASE_URL: "https://nothing.invalid", RETRY_BASE_MS: "600000" },
    cold: true,
    cause: ({ daemon }) => daemon.push(people(5)),
    section: "the-ledger-is-cold-or-being-warmed",
    says: /cannot be listed \(dns at \S+:\d+\)/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["warming_up"] },
    doctor: ["name of the service", /cannot be resolved/],
  },
  {
    what: "only half of the roles were started",
    roles: ["http", "intake"],
    cold: true,
    cause: ({ daemon }) => daemon.push(people(5)),
    section: "crmsyncrolemissing",
    says: /No running process has the role sync/,
    status: { backlog: { drainedAt: null } },
    doctor: ["processes", /No running process has the role sync/],
  },
  {
    what: "the mapping is for another CRM",
    env: { MAPPING: "hubspot" },
    cause: ({ daemon }) => daemon.push(people(5)),
    section: "crmsyncdeadletters",
    says: /^5 dead letters wait/,
    status: { deadLetters: { byReason: { unmappable: 5 } } },
    doctor: ["dead letters", /5 dead letters wait/],
  },
  {
    what: "a CRM signs with an old secret",
    env: HUBSPOT,
    cause: async (setup) => expect((await hubspot(setup, "another")).status).toBe(401),
    section: "crmsyncsendererrors",
    says: /not accepted in the last hour: 1 on \/webhooks\/hubspot \(unauthorised\)/,
  },
  {
    what: "somebody has paused the inbox",
    async cause(setup) {
      await pause("crm-events", setup);
      await setup.daemon.push(people(5));
    },
    section: "crmsyncqueuepaused",
    says: /paused the queue crm-events/,
    status: { backlog: { inbox: 5, drainedAt: null } },
    doctor: ["queues", /paused the queue crm-events/],
  },
];

const findingOf = ({ findings }: Status, section: string) =>
  findings.find(({ runbook: link }) => link === `docs/runbook.md#${section}`);

async function cli(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = localCrmsync(args, { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

/** Checks that status names the incident, and doctor too, where it can. */
async function expectNamed(
  setup: Setup,
  incident: Omit<Incident, "what" | "cause">,
): Promise<void> {
  const { section, says, status, doctor } = incident;
  expect(anchors).toContain(section);
  // What is told may change between two looks: each look must agree in itself.
  await waitFor(
    async () => {
      const now = await setup.daemon.status();
      expect(findingOf(now, section)?.says).toMatch(says);
      if (status !== undefined) expect(now).toMatchObject(status);
      if (now.findings[0]?.severity === "stopped") {
        expect(await notReady(setup.daemon)).not.toEqual([]);
      }
      return true;
    },
    { what: `status says ${says}, and /readyz agrees` },
  );
  if (doctor === undefined) return;
  const { out } = await cli(setup.env, "doctor", "--json");
  const check = (JSON.parse(out) as Check[]).find(({ name }) => name === doctor[0]);
  expect(check?.result).toMatch(/warn|fail/);
  expect(check?.says).toMatch(doctor[1]);
  expect(check?.remedy).not.toBe("");
}

/** Why `/readyz` says that nothing is accepted or sent. */
async function notReady({ url }: DaemonAccess): Promise<string[]> {
  const { reasons, notSending } = (await (await fetch(`${url}/readyz`)).json()) as Record<
    "reasons" | "notSending",
    string[]
  >;
  return [...reasons, ...notSending];
}

const envFor = (sandbox: LocalSandbox, redisUrl: string): Record<string, string> => ({
  REDIS_URL: redisUrl,
  QUEUE_PREFIX: uniquePrefix(),
  SERVICE_BASE_URL: sandbox.url,
  SERVICE_TOKEN: sandbox.token,
  SERVICE_TIMEOUT_MS: "2000",
  // With a shorter window, a permit becomes too old on a busy machine.
  QUOTA_BURST: "1000",
  RETRY_BASE_MS: "50",
});

it.for(INCIDENTS)("$what", async (incident) => {
  await using sandbox = await localSandbox();
  const env = { ...envFor(sandbox, inject("redisUrl")), ...incident.env };
  await using daemon = await localDaemon(env, new Set(incident.roles ?? ROLES));
  if (incident.cold === undefined) await waitFor(async () => isWarm(daemon), { what: "warm" });
  const setup = { env, sandbox, daemon };
  await incident.cause(setup);
  await expectNamed(setup, incident);
});

const isWarm = async (daemon: DaemonAccess) => (await daemon.status()).ledger.state === "done";

it("a CRM does not return its records", async () => {
  const crm = createServer((_, response) => response.writeHead(401).end("{}"));
  await once(crm.listen(0, "127.0.0.1"), "listening");
  try {
    await using sandbox = await localSandbox();
    const { port } = crm.address() as AddressInfo;
    const api = { HUBSPOT_API_URL: `http://127.0.0.1:${port}` };
    const env = { ...envFor(sandbox, inject("redisUrl")), ...HUBSPOT, ...api };
    await using daemon = await localDaemon(env);
    const setup = { env, sandbox, daemon };
    expect((await hubspot(setup, HUBSPOT.HUBSPOT_WEBHOOK_SECRET)).ok).toBe(true);
    await expectNamed(setup, {
      section: "crmsyncrecordsnotfetched",
      says: /hubspot does not return 1 of its records \(HTTP 401\)/,
      status: { backlog: { toFetch: 1, drainedAt: null } },
      doctor: ["records of the CRM", /HTTP 401/],
    });
  } finally {
    crm.close();
  }
});

async function withOwnRedis(
  work: (setup: Setup & { redis: OwnRedis }) => Promise<void>,
): Promise<void> {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, redis.url);
  await using daemon = await localDaemon(env);
  await waitFor(async () => isWarm(daemon), { what: "warm" });
  await work({ env, sandbox, daemon, redis });
}

it("Redis is full", () =>
  withOwnRedis(async (setup) => {
    await setup.redis.client.config("SET", "maxmemory", "1mb");
    await expectNamed(setup, {
      section: "crmsyncredisnearlyfull",
      says: /^Redis uses \d+ % of its memory.*: events are not accepted/,
      status: { sendingStopped: [] },
      doctor: ["redis memory", /% of its memory/],
    });
    // The shutdown needs memory.
    await setup.redis.client.config("SET", "maxmemory", "0");
  }));

it("Redis may evict changes", () =>
  withOwnRedis(async (setup) => {
    await setup.redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
    await expectNamed(setup, {
      section: "crmsyncredisnotdurable",
      says: /maxmemory-policy is allkeys-lru/,
      status: { redis: { durable: false } },
      doctor: ["redis policy", /allkeys-lru/],
    });
  }));

it("every process was killed: the status in Redis says so, and the changes still wait", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, inject("redisUrl"));
  await using daemon = await startDaemon(env);
  await waitUntilSettled(daemon);
  await armFault(sandbox, { fault: "hang" });
  await daemon.push(people(5));
  await waitFor(async () => (await daemon.metric("crmsync_unsynced_records")) === 5, {
    what: "staged",
  });
  daemon.process.kill("SIGKILL");
  const seen = await waitFor(
    async () => {
      const now = JSON.parse((await cli(env, "status", "--json")).out) as Status;
      return findingOf(now, "crmsyncdown") && now;
    },
    { what: "status says that the process sends no heartbeat" },
  );
  expect(findingOf(seen, "crmsyncdown")?.says).toMatch(/has sent no heartbeat|No process/);
  expect(seen.backlog.live.records).toBe(5);
  expect(anchors).toContain("crmsyncdown");
});

it("no Redis at all: status and doctor name its address and the error", async () => {
  const env = { REDIS_URL: "redis://:a-password@127.0.0.1:1" };
  const { code, err } = await cli(env, "status");
  expect(code).toBe(1);
  expect(err).toMatch(/Redis at 127\.0\.0\.1:1 cannot be reached: .*ECONNREFUSED/);
  expect(err).toContain("docs/runbook.md#crmsyncredisaway");
  expect(err).not.toContain("a-password");
  expect((await cli(env, "doctor")).out).toMatch(/✗ fail redis .*ECONNREFUSED/);
});

it("the embedded Redis is down while its daemon runs: status tells this from a missing daemon", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const env = { DATA_DIR: dir.path, SERVICE_BASE_URL: sandbox.url, SERVICE_TOKEN: sandbox.token };
  await using daemon = await startDaemon({ ...env, LOG_LEVEL: "info" });
  const [, redisPid] = await daemon.process.line(/"server_pid":(\d+)/);
  daemon.process.kill("SIGSTOP");
  try {
    process.kill(Number(redisPid), "SIGKILL");
    const down = await waitFor(
      async () => {
        const { err } = await cli(env, "status");
        return err.includes("does not answer") && err;
      },
      { what: "status says that the redis-server is down" },
    );
    expect(down).toContain(`the daemon ${daemon.process.pid} runs on DATA_DIR ${dir.path}`);
    expect(down).toContain("docs/runbook.md#crmsyncredisaway");
    expect(down).toContain(join(dir.path, "redis", "redis.log"));
  } finally {
    daemon.process.kill("SIGCONT");
  }
  // The daemon starts its redis-server again.
  await waitFor(async () => (await cli(env, "status")).code === 0, {
    what: "status answers again",
  });
});
