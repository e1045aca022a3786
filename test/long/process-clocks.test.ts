/**
 * Wrong clocks of processes, a clock of Redis that is set while changes wait, and a service that
 * counts requests late.
 */
import { expect, it } from "vitest";
import type { Status } from "../../src/operate/status/status.ts";
import {
  startDaemon,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxAccess,
} from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { people, personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { shiftedClock, steppingRedis } from "../support/shifted-clock.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MINUTE_MS = 60_000;

/** Hours of three seconds; the service counts strictly. */
const STRICT = {
  limits: { perHour: 40, hourMs: 3000, burst: 20, burstMs: 500 },
  policy: "sliding",
} as const;
const QUOTA = {
  QUOTA_PER_HOUR: "40",
  QUOTA_HOUR_MS: "3000",
  QUOTA_BURST: "20",
  QUOTA_BURST_MS: "500",
  QUOTA_LIVE_RESERVE: "0",
  SERVICE_TIMEOUT_MS: "1000",
  RETRY_BASE_MS: "500",
};

async function arm(sandbox: SandboxAccess, ...faults: object[]): Promise<void> {
  for (const fault of faults) {
    const armed = await fetch(`${sandbox.faultsUrl}/faults`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(fault),
    });
    expect(armed.status).toBe(201);
  }
}

async function throttled(sandbox: SandboxAccess): Promise<string[]> {
  return Object.keys(await sandbox.requests()).filter((request) => request.endsWith(" 429"));
}

const WRONG_CLOCK = "docs/runbook.md#the-clock-of-a-process-is-wrong";
const CLOCK_SET = "docs/runbook.md#the-clock-of-redis-was-set";

it("processes ten minutes ahead and behind: nothing is late, lost, throttled or reported wrongly", async (context) => {
  await using ahead = await shiftedClock(context, 10 * MINUTE_MS);
  await using behind = await shiftedClock(context, -10 * MINUTE_MS);
  await using sandbox = await localSandbox(STRICT);
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

it("Redis' clock is set back and forward while changes wait: each arrives, and the newest one wins", async (context) => {
  await using redis = await steppingRedis(context);
  await using sandbox = await localSandbox(STRICT);
  const env = envFor(sandbox, { ...QUOTA, REDIS_URL: redis.url });
  await using daemon = await localDaemon(env);
  const hasStepped = (times: number) =>
    daemon.log.filter((line) => line.includes("redis.clock_stepped")).length === times;
  await arm(sandbox, { fault: "error", status: 503, times: 5, method: "POST" });
  await daemon.push([...people(30, "back"), personEvent("1", { firstName: "v0" })]);
  await waitFor(async () => (await daemon.metric("crmsync_retries_total")) >= 5, {
    what: "retries",
  });
  redis.setClock(-10_000);
  await waitFor(() => hasStepped(1), { what: "the step is noticed" });
  await daemon.push([personEvent("1", { firstName: "v1" })]);
  const { time: _, ...untimed } = personEvent("1", { firstName: "v2" });
  await daemon.push([untimed]);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("1")?.["firstName"]).toBe("v2");

  await daemon.push([...people(60, "forward"), personEvent("1", { firstName: "v3" })]);
  redis.setClock(300_000);
  await waitFor(() => hasStepped(2), { what: "the step is noticed" });
  await daemon.push([personEvent("1", { firstName: "v4" })]);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(91);
  expect(relations.get("1")?.["firstName"]).toBe("v4");
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  // Redis' clock is wrong by now, as this machine's would be after a step to the right time.
  const sections = (await daemon.status()).findings.map(({ runbook }) => runbook);
  expect(sections).toEqual(expect.arrayContaining([WRONG_CLOCK, CLOCK_SET]));
});

it("a restart under a clock that is behind: newer changes are no older ones, and are sent once it is right", async (context) => {
  await using redis = await steppingRedis(context);
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { REDIS_URL: redis.url });
  {
    await using daemon = await localDaemon(env);
    await daemon.push([personEvent("1", { firstName: "Old" })]);
    await waitUntilSettled(daemon);
  }
  // As of a machine whose battery is empty, until the time of the network is known.
  redis.setClock(-60 * MINUTE_MS);
  {
    await using daemon = await localDaemon(env);
    const { time: _, ...untimed } = personEvent("2");
    await daemon.push([personEvent("1", { firstName: "New" }), untimed]);
    // The quota may make them wait for the request from before: none of them counts as older.
    await waitFor(async () => (await daemon.metric("crmsync_events_received_total")) === 2, {
      what: "both are accepted",
    });
    expect(await daemon.metric("crmsync_changes_total", { outcome: "superseded" })).toBe(0);
  }
  redis.setClock(0);
  await using daemon = await localDaemon(env);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get("1")?.["firstName"]).toBe("New");
  expect(relations.has("2")).toBe(true);
});
