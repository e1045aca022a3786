/**
 * Wrong clocks of processes, a clock of Redis that is put right while changes wait, and a service that
 * counts requests late.
 */
import { createHmac } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { expect, it } from "vitest";
import type { Status } from "../../src/status/status.ts";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { isSigned, startReceiver } from "../support/notify-receiver.ts";
import { people, personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { startServiceProxy } from "../support/service-proxy.ts";
import { shiftedClock, steppingRedis } from "../support/shifted-clock.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;

/** Hours of three seconds; the service counts strictly. */
const LIMITS = ["--per-hour", "40", "--hour-ms", "3000", "--burst", "20", "--burst-ms", "500"];
const QUOTA = {
  QUOTA_PER_HOUR: "40",
  QUOTA_HOUR_MS: "3000",
  QUOTA_BURST: "20",
  QUOTA_BURST_MS: "500",
  QUOTA_LIVE_RESERVE: "0",
  SERVICE_TIMEOUT_MS: "1000",
  RETRY_BASE_MS: "500",
};

async function arm(sandbox: SandboxProcess, ...faults: object[]): Promise<void> {
  for (const fault of faults) {
    const armed = await fetch(`${sandbox.faultsUrl}/faults`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(fault),
    });
    expect(armed.status).toBe(201);
  }
}

async function throttled(sandbox: SandboxProcess): Promise<string[]> {
  return Object.keys(await sandbox.requests()).filter((request) => request.endsWith(" 429"));
}

const WRONG_CLOCK = "docs/runbook.md#the-clock-of-a-process-is-wrong";

it("processes ten minutes ahead and behind: nothing is late, lost, throttled or reported wrongly", async (context) => {
  await using ahead = await shiftedClock(context, 10 * MINUTE_MS);
  await using behind = await shiftedClock(context, -10 * MINUTE_MS);
  await using sandbox = await startSandbox({ limits: LIMITS, flags: ["--policy", "sliding"] });
  const env = envFor(sandbox, QUOTA);
  await using stack = new AsyncDisposableStack();
  const daemons = await Promise.all(
    [ahead, behind].map(async (clock) => stack.use(await startDaemon({ ...env, ...clock.env }))),
  );
  const [first, second] = daemons as [DaemonProcess, DaemonProcess];
  await arm(
    sandbox,
    { fault: "error", status: 503, times: 4, method: "POST" },
    // Held until the request cannot take effect any more.
    { fault: "reset", when: "after", times: 2, method: "POST" },
  );
  await Promise.all([first.push(people(30, "a")), second.push(people(30, "b"))]);
  // Without a time of its own each event counts as of its arrival.
  for (let n = 0; n < 10; n += 1) {
    const { time: _, ...event } = personEvent("1", { firstName: `v${n}` });
    await (n % 2 === 0 ? first : second).push([event]);
  }
  await waitUntilSettled(second);
  expect(await throttled(sandbox)).toEqual([]);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(61);
  expect(relations.get("1")?.["firstName"]).toBe("v9");
  const { findings, deadLetters } = await first.status();
  expect(new Set(findings.map(({ runbook }) => runbook))).toEqual(new Set([WRONG_CLOCK]));
  expect(deadLetters.total).toBe(0);
  await using command = spawnCrmsync(["status", "--json"], { env: { ...env, ...ahead.env } });
  await command.ended;
  const told = JSON.parse(command.stdout.join("")) as Status;
  expect(told.processes).toHaveLength(2);
  expect(new Set(told.findings.map(({ runbook }) => runbook))).toEqual(new Set([WRONG_CLOCK]));
});

it("Redis' clock steps by five minutes while changes wait: nothing waits for it, no 429", async (context) => {
  await using redis = await steppingRedis(context);
  await using sandbox = await startSandbox({ limits: LIMITS, flags: ["--policy", "sliding"] });
  const env = envFor(sandbox, { ...QUOTA, REDIS_URL: redis.url });
  await using daemon = await startDaemon(env);
  // An outage with its pause, records that wait for a retry, and records that are held.
  await arm(
    sandbox,
    { fault: "error", status: 503, times: 5, method: "POST" },
    { fault: "reset", when: "after", times: 2, method: "POST" },
  );
  await daemon.push(people(30, "back"));
  await waitFor(async () => (await daemon.metric("crmsync_retries_total")) >= 5, {
    what: "retries",
  });
  redis.setClock(-5 * MINUTE_MS);
  await waitUntilSettled(daemon, 60_000);
  // Locks end when they would have ended.
  for (const lock of ["crm-events:stalled-check", "sweeping"]) {
    const leftMs = () => redis.client.pttl(`${env.QUEUE_PREFIX}:${lock}`);
    await waitFor(async () => (await leftMs()) < 10_000, { what: `the lock ${lock} ends` });
  }

  await daemon.push(people(60, "forward"));
  await waitFor(async () => ((await sandbox.requests())["create 201"] ?? 0) > 40, { what: "some" });
  redis.setClock(5 * MINUTE_MS);
  await waitUntilSettled(daemon, 60_000);
  expect(await throttled(sandbox)).toEqual([]);
  expect((await sandbox.relations()).size).toBe(90);
  expect(daemon.process.stderr.filter((line) => line.includes("redis.clock_stepped"))).toHaveLength(
    2,
  );
  // Redis' clock is wrong by now, as this machine's would be after a step to the right time.
  const sections = (await daemon.status()).findings.map(({ runbook }) => runbook);
  expect(sections).toEqual([WRONG_CLOCK]);
});

it("Redis' clock is put right after days: events and signatures of right clocks are accepted", async (context) => {
  await using redis = await steppingRedis(context);
  // As of a virtual machine that was paused for three days.
  redis.setClock(-3 * DAY_MS);
  await using sandbox = await startSandbox();
  await using receiver = await startReceiver();
  const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const ofHubspot = "a-secret-of-hubspot-for-tests";
  const env = envFor(sandbox, {
    REDIS_URL: redis.url,
    INGEST_AUTH: "",
    INGEST_SECRET: secret,
    HUBSPOT_WEBHOOK_SECRET: ofHubspot,
    NOTIFY_URL: receiver.url,
    NOTIFY_SECRET: secret,
    NOTIFY_DEAD_LETTERS: "1",
    // An hour of 12 s: what lasts for 0.1 s is notified.
    QUOTA_HOUR_MS: "12000",
  });
  await using daemon = await startDaemon(env);
  const send = async (path: string, headers: Record<string, string>, body: string) =>
    (await fetch(daemon.url + path, { method: "POST", headers, body })).status;
  const pushSigned = (id: string, fields: Record<string, string>) => {
    const body = JSON.stringify(personEvent("1", fields));
    const signature = new Webhook(secret).sign(id, new Date(), body);
    const signed = { "webhook-id": id, "webhook-timestamp": `${Math.floor(Date.now() / 1000)}` };
    const type = { "content-type": "application/cloudevents+json" };
    return send("/events", { ...type, ...signed, "webhook-signature": signature }, body);
  };
  const sendHubspot = () => {
    const [path, body, at] = ["/webhooks/hubspot", "[]", `${Date.now()}`];
    const signature = createHmac("sha256", ofHubspot)
      .update(`POST${daemon.url}${path}${body}${at}`)
      .digest("base64");
    const signed = {
      "x-hubspot-request-timestamp": at,
      "x-hubspot-signature-v3": signature,
    };
    return send(path, { "content-type": "application/json", ...signed }, body);
  };
  expect(await pushSigned("1", {})).toBe(401);
  redis.setClock(0);
  const hasStepped = () => daemon.process.stderr.some((line) => line.includes("clock_stepped"));
  await waitFor(hasStepped, { what: "the step is taken out" });
  expect(await sendHubspot()).toBe(200);
  expect(await pushSigned("2", { firstName: "Ada" })).toBe(202);
  await waitFor(async () => (await sandbox.relations()).get("1")?.["firstName"] === "Ada", {
    what: "the change arrives",
  });
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  await using doctor = spawnCrmsync(["doctor"], { env });
  await doctor.line(/clock, shared +43[12]\d min behind Redis' clock, which was set/);
  const earlier = receiver.received.length;
  expect(await pushSigned("3", { birthDate: "no date" })).toBe(202);
  await waitFor(() => receiver.received.length > earlier, { what: "a notification" });
  expect(receiver.received.slice(earlier).every((one) => isSigned(one, secret))).toBe(true);
});

it("a restart under a clock that is behind: newer changes are no older ones, and are sent", async (context) => {
  await using redis = await steppingRedis(context);
  await using sandbox = await startSandbox();
  const env = envFor(sandbox, { REDIS_URL: redis.url });
  {
    await using daemon = await startDaemon(env);
    await daemon.push([personEvent("1", { firstName: "Old" })]);
    await waitUntilSettled(daemon);
  }
  // As of a machine whose battery is empty, until the time of the network is known.
  redis.setClock(-60 * MINUTE_MS);
  await using daemon = await startDaemon(env);
  redis.setClock(0);
  const { time: _, ...untimed } = personEvent("2");
  await daemon.push([personEvent("1", { firstName: "New" }), untimed]);
  const arrive = async () => {
    const relations = await sandbox.relations();
    return relations.get("1")?.["firstName"] === "New" && relations.has("2");
  };
  await waitFor(arrive, { what: "both changes arrive" });
  await waitUntilSettled(daemon);
});

it("a gateway holds bursts for longer than their leases last by themselves: no 429", async () => {
  const limits = ["--per-hour", "1000", "--burst", "8", "--burst-ms", "500", "--policy", "sliding"];
  await using sandbox = await startSandbox({ limits });
  await using gateway = await startServiceProxy(sandbox.url);
  await using daemon = await startDaemon(
    envFor(
      { url: gateway.url, token: sandbox.token },
      { QUOTA_BURST: "8", QUOTA_BURST_MS: "500", QUOTA_PACING: "burst", SYNC_CONCURRENCY: "20" },
    ),
  );
  await daemon.push([personEvent("first")]);
  await waitUntilSettled(daemon);
  // The first request begins a wait; it and all that come meanwhile are passed on at once. A lease
  // ends by itself 2 s after its window.
  let passing: Promise<void> | undefined;
  gateway.answer = async ({ pass }) => {
    passing ??= delay(3000).then(() => {
      passing = undefined;
    });
    await passing;
    return pass();
  };
  await daemon.push(people(16, "held"));
  await waitUntilSettled(daemon);
  expect(await throttled(sandbox)).toEqual([]);
  expect((await sandbox.requests())["create 201"]).toBe(17);
});
