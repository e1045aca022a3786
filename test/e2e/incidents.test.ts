/**
 * What an operator sees who knows only that nothing moves: each incident is staged for real, and
 * `status` and `doctor` must name its cause and a section of the runbook that is there. A token
 * refused, the hour spent and Redis away are in status.test.ts, a disk's and a replica's troubles
 * in redis-trouble.test.ts.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, inject, it } from "vitest";
import type { Check } from "../../src/doctor/check.ts";
import type { Status } from "../../src/status/status.ts";
import {
  personEvent,
  startDaemon,
  startSandbox,
  tempDir,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { spawnCrmsync } from "../support/process.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

const runbook = readFileSync(join(import.meta.dirname, "../../docs/runbook.md"), "utf8");
const anchors = new Set(
  [...runbook.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title.toLowerCase().replaceAll(" ", "-"),
  ),
);

interface World {
  readonly env: Readonly<Record<string, string>>;
  readonly sandbox: SandboxProcess;
  readonly daemon: DaemonProcess;
}

interface Incident {
  readonly what: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** Whether the ledger is warm before it happens. */
  readonly cold?: true;
  stage(world: World): Promise<unknown>;
  /** Section of the runbook, and what the finding says. */
  readonly section: string;
  readonly says: RegExp;
  /** What else the status must say. */
  readonly status?: object;
  readonly doctor?: readonly [check: string, says: RegExp];
}

const people = (count: number, prefix = "r") =>
  Array.from({ length: count }, (_, n) => personEvent(`${prefix}${n}`));

async function fault(sandbox: SandboxProcess, body: object): Promise<void> {
  const armed = await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ times: 10_000, ...body }),
  });
  expect(armed.status).toBe(201);
}

async function pause(name: string, { daemon, env }: World): Promise<void> {
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
function hubspot({ daemon }: World, secret: string): Promise<Response> {
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
    what: "the service does not admit our address",
    async stage({ sandbox, daemon }) {
      await fault(sandbox, { fault: "blocked" });
      await daemon.push(people(5));
    },
    section: "crmsyncaddressdenied",
    says: /refuses our address \S+ \(403\)/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["address_denied"] },
    doctor: ["address", /refused \(403\)/],
  },
  {
    what: "the service asks for half an hour, although the hour is not spent",
    async stage({ sandbox, daemon }) {
      await fault(sandbox, { fault: "rate-limit", seconds: 1800 });
      await daemon.push(people(5));
    },
    section: "crmsyncthrottled",
    says: /\(429\) until .* 9\d\d requests left: another program/,
    doctor: ["token", /the service answered 429, until/],
  },
  {
    what: "a foreign program spends of the same token",
    async stage({ sandbox, daemon }) {
      await fault(sandbox, { fault: "rate-limit", seconds: 1, rateHeaders: false, times: 1 });
      await daemon.push(people(20));
    },
    section: "crmsyncpacingsteady",
    says: /429 that our own count did not foresee/,
    status: { quota: { pacing: "steady" } },
  },
  {
    what: "the service is gone",
    async stage({ sandbox, daemon }) {
      sandbox.process.kill("SIGKILL");
      await daemon.push(people(20));
    },
    section: "crmsyncserviceunavailable",
    says: /no usable answer \((refused|reset)\) since/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["unavailable"] },
    doctor: ["connection to the service", /ECONNREFUSED/],
  },
  {
    what: "a page answers in the service's place",
    async stage({ sandbox, daemon }) {
      await fault(sandbox, { fault: "error", status: 503, body: "html" });
      await daemon.push(people(20));
    },
    section: "crmsyncserviceunavailable",
    says: /no usable answer \(server_error\) since/,
    doctor: ["service", /server_error, 503/],
  },
  {
    what: "the service's name was never right",
    env: { SERVICE_BASE_URL: "https://nothing.invalid", RETRY_BASE_MS: "600000" },
    cold: true,
    stage: ({ daemon }) => daemon.push(people(5)),
    section: "the-ledger-is-cold-or-being-warmed",
    says: /cannot be listed \(dns\)/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["warming_up"] },
    doctor: ["name of the service", /cannot be resolved/],
  },
  {
    what: "only half of the roles were started",
    args: ["--roles", "http,intake"],
    cold: true,
    stage: ({ daemon }) => daemon.push(people(5)),
    section: "crmsyncrolemissing",
    says: /No running process plays the role sync/,
    status: { backlog: { drainedAt: null } },
    doctor: ["processes", /nobody plays sync/],
  },
  {
    what: "the mapping is for another CRM",
    env: { MAPPING: "hubspot" },
    stage: ({ daemon }) => daemon.push(people(5)),
    section: "crmsyncdeadletters",
    says: /^5 dead letters wait/,
    status: { deadLetters: { byReason: { unmappable: 5 } } },
    doctor: ["dead letters", /5 wait/],
  },
  {
    what: "a CRM signs with an old secret",
    env: HUBSPOT,
    stage: async (world) => expect((await hubspot(world, "another")).status).toBe(401),
    section: "crmsyncsendererrors",
    says: /refused in the last hour: 1 on \/webhooks with 401/,
  },
  {
    what: "somebody has paused what is sent",
    async stage(world) {
      await pause("sync", world);
      await world.daemon.push(people(5));
    },
    section: "crmsyncqueuepaused",
    says: /paused the queue sync/,
    status: { backlog: { drainedAt: null }, sendingStopped: ["queue_paused"] },
    doctor: ["queues", /sync paused/],
  },
  {
    what: "somebody has paused the inbox",
    async stage(world) {
      await pause("crm-events", world);
      await world.daemon.push(people(5));
    },
    section: "crmsyncqueuepaused",
    says: /paused the queue crm-events/,
    status: { backlog: { inbox: 5, drainedAt: null } },
  },
];

const findingOf = ({ findings }: Status, section: string) =>
  findings.find(({ runbook: link }) => link === `docs/runbook.md#${section}`);

async function statusOver(daemon: DaemonProcess): Promise<Status> {
  return (await (await fetch(`${daemon.url}/status`)).json()) as Status;
}

async function cli(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = spawnCrmsync(args, { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

/** That status names the incident, and doctor too, where it can. */
async function expectNamed(
  world: World,
  incident: Omit<Incident, "what" | "stage">,
): Promise<void> {
  const { section, says, status, doctor } = incident;
  expect(anchors).toContain(section);
  const seen = await waitFor(
    async () => {
      const now = await statusOver(world.daemon);
      return says.test(findingOf(now, section)?.says ?? "") && now;
    },
    { deadlineMs: 60_000, what: `status says ${says}` },
  );
  if (status !== undefined) expect(seen).toMatchObject(status);
  const ready = (await (await fetch(`${world.daemon.url}/readyz`)).json()) as {
    reasons: string[];
    notSending: string[];
  };
  if (seen.findings[0]?.severity === "stopped") {
    expect([...ready.reasons, ...ready.notSending]).not.toEqual([]);
  }
  if (doctor === undefined) return;
  const { out } = await cli(world.env, "doctor", "--json");
  const check = (JSON.parse(out) as Check[]).find(({ name }) => name === doctor[0]);
  expect(check?.result).toMatch(/warn|fail/);
  expect(check?.says).toMatch(doctor[1]);
  expect(check?.remedy).not.toBe("");
}

const envFor = (sandbox: SandboxProcess, redisUrl: string): Record<string, string> => ({
  REDIS_URL: redisUrl,
  QUEUE_PREFIX: uniquePrefix(),
  SERVICE_BASE_URL: sandbox.url,
  SERVICE_TOKEN: sandbox.token,
  SERVICE_TIMEOUT_MS: "2000",
  QUOTA_BURST_MS: "100",
  RETRY_BASE_MS: "50",
});

it.for(INCIDENTS)("$what", async (incident) => {
  await using sandbox = await startSandbox();
  const env = { ...envFor(sandbox, inject("redisUrl")), ...incident.env };
  await using daemon = await startDaemon(env, incident.args);
  if (incident.cold === undefined) await waitFor(async () => isWarm(daemon), { what: "warm" });
  const world = { env, sandbox, daemon };
  await incident.stage(world);
  await expectNamed(world, incident);
});

const isWarm = async (daemon: DaemonProcess) => (await statusOver(daemon)).ledger.state === "done";

it("a CRM does not give its records", async () => {
  const crm = createServer((_, response) => response.writeHead(401).end("{}"));
  await once(crm.listen(0, "127.0.0.1"), "listening");
  try {
    await using sandbox = await startSandbox();
    const { port } = crm.address() as AddressInfo;
    const api = { HUBSPOT_API_URL: `http://127.0.0.1:${port}` };
    const env = { ...envFor(sandbox, inject("redisUrl")), ...HUBSPOT, ...api };
    await using daemon = await startDaemon(env);
    const world = { env, sandbox, daemon };
    expect((await hubspot(world, HUBSPOT.HUBSPOT_WEBHOOK_SECRET)).ok).toBe(true);
    await expectNamed(world, {
      section: "crmsyncrecordsnotfetched",
      says: /hubspot does not give 1 of its records \(HTTP 401\)/,
      status: { backlog: { toFetch: 1, drainedAt: null } },
      doctor: ["records of the CRM", /HTTP 401/],
    });
  } finally {
    crm.close();
  }
});

async function withOwnRedis(
  args: readonly string[],
  work: (world: World & { redis: OwnRedis }) => Promise<void>,
): Promise<void> {
  await using redis = await ownRedis(args);
  await using sandbox = await startSandbox();
  const env = envFor(sandbox, redis.url);
  await using daemon = await startDaemon(env);
  await waitFor(async () => isWarm(daemon), { what: "warm" });
  await work({ env, sandbox, daemon, redis });
}

it("Redis is full", () =>
  withOwnRedis(["--maxmemory-policy", "noeviction"], async (world) => {
    await world.redis.client.config("SET", "maxmemory", "1mb");
    await expectNamed(world, {
      section: "crmsyncredisnearlyfull",
      says: /^Redis is full/,
      status: { sendingStopped: ["redis_full"] },
      doctor: ["redis memory", /of 1 MiB/],
    });
    // Room to stop in.
    await world.redis.client.config("SET", "maxmemory", "0");
  }));

it("Redis may throw changes away", () =>
  withOwnRedis(["--maxmemory-policy", "allkeys-lru"], (world) =>
    expectNamed(world, {
      section: "crmsyncredisnotdurable",
      says: /maxmemory-policy is allkeys-lru/,
      status: { redis: { durable: false } },
      doctor: ["redis policy", /allkeys-lru/],
    }),
  ));

it("every process was killed: who asks Redis is told, and what waits is kept", async () => {
  await using sandbox = await startSandbox();
  const env = envFor(sandbox, inject("redisUrl"));
  await using daemon = await startDaemon(env);
  await waitUntilSettled(daemon);
  await fault(sandbox, { fault: "hang" });
  await daemon.push(people(5));
  await waitFor(async () => (await daemon.metric("crmsync_unsynced_records")) === 5, {
    what: "staged",
  });
  daemon.process.kill("SIGKILL");
  const told = await waitFor(
    async () => {
      const now = JSON.parse((await cli(env, "status", "--json")).out) as Status;
      return findingOf(now, "crmsyncdown") && now;
    },
    { deadlineMs: 60_000, what: "status says that the process is not heard of" },
  );
  expect(findingOf(told, "crmsyncdown")?.says).toMatch(/not been heard of|No process/);
  expect(told.backlog.live.records).toBe(5);
  expect(anchors).toContain("crmsyncdown");
});

it("Redis is not there at all: status and doctor say where it was sought, and why it is not", async () => {
  const env = { REDIS_URL: "redis://:not-to-be-told@127.0.0.1:1" };
  const { code, err } = await cli(env, "status");
  expect(code).toBe(1);
  expect(err).toMatch(/Redis at 127\.0\.0\.1:1 cannot be reached: .*ECONNREFUSED/);
  expect(err).toContain("docs/runbook.md#crmsyncredisaway");
  expect(err).not.toContain("not-to-be-told");
  expect((await cli(env, "doctor")).out).toMatch(/✗ fail redis .*ECONNREFUSED/);
});

it("the embedded Redis is down while its daemon runs: that is told apart from no daemon", async () => {
  await using dir = await tempDir();
  await using sandbox = await startSandbox();
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
      { deadlineMs: 30_000, what: "status says that its redis-server is down" },
    );
    expect(down).toContain(`the daemon ${daemon.process.pid} runs on DATA_DIR ${dir.path}`);
    expect(down).toContain("docs/runbook.md#crmsyncredisaway");
    expect(down).toContain(join(dir.path, "redis", "redis.log"));
  } finally {
    daemon.process.kill("SIGCONT");
  }
  // It starts its redis-server again by itself.
  await waitFor(async () => (await cli(env, "status")).code === 0, {
    deadlineMs: 60_000,
    what: "status answers again",
  });
});
