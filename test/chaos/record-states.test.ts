import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  type DaemonProcess,
  type SandboxProcess,
  startDaemon,
  startSandbox,
  waitUntilSettled,
} from "../support/crmsync.ts";
import { readOne } from "../../src/base/redis-reading.ts";
import { keysOf } from "../../src/core/state/keys.ts";
import { Line } from "../../src/core/state/line.ts";
import { personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

const prefix = uniquePrefix();
const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
const line = new Line(redis, keysOf(prefix));

/** Long: no retry of an older state may come due during a test. */
const RETRY_BASE_MS = 600_000;
const SERVICE_TIMEOUT_MS = 4000;

let sandbox: SandboxProcess;
let daemon: DaemonProcess;

beforeAll(async () => {
  sandbox = await startSandbox();
  daemon = await startDaemon(
    envFor(sandbox, {
      QUEUE_PREFIX: prefix,
      SERVICE_TIMEOUT_MS: String(SERVICE_TIMEOUT_MS),
      RETRY_BASE_MS: String(RETRY_BASE_MS),
    }),
  );
});

afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await sandbox[Symbol.asyncDispose]();
  redis.disconnect();
});

const push = async (crmCode: string, firstName: string) => {
  expect((await daemon.push([personEvent(crmCode, { firstName })])).status).toBe(202);
};

const arrives = (crmCode: string, firstName: string) =>
  waitFor(async () => (await sandbox.relations()).get(crmCode)?.["firstName"] === firstName, {
    what: `${crmCode} is ${firstName}`,
  });

/** Puts a record on the service and arms `fault` for its next update. */
async function syncThenArm(crmCode: string, fault: Record<string, unknown>): Promise<void> {
  await push(crmCode, "version 0");
  await arrives(crmCode, "version 0");
  await waitUntilSettled(daemon);
  const response = await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...fault, path: `/v1.1/business-relations/${crmCode}` }),
  });
  expect(response.status).toBe(201);
}

const strikes = async (): Promise<number> => {
  const { faults } = (await (await fetch(`${sandbox.faultsUrl}/faults`)).json()) as {
    faults: { struck: number }[];
  };
  return faults.at(-1)?.struck ?? 0;
};

const updates = async (): Promise<number> => (await sandbox.requests())["update 200"] ?? 0;

const isInFlight = async (): Promise<boolean> =>
  (await readOne(redis, line.counts())).inFlight === 1;

const strikesOnce = () =>
  waitFor(async () => (await strikes()) === 1, { what: "the fault strikes" });

/** It was tried, and waits for what comes next. */
async function isGivenBack(): Promise<void> {
  await strikesOnce();
  await waitFor(async () => !(await isInFlight()), { what: "the record is given back" });
}

describe("an event that arrives while its record", () => {
  it("is sent: is sent after it, in a second run", async () => {
    await syncThenArm("active", { fault: "latency", ms: 3000 });
    const before = await updates();
    await push("active", "version 1");
    await waitFor(isInFlight, { what: "its request is under way" });
    await push("active", "version 2");
    await arrives("active", "version 2");
    expect((await updates()) - before).toBe(2);
  });

  it("waits for a retry: does not wait for the retry", async () => {
    await syncThenArm("delayed", { fault: "truncate" });
    await push("delayed", "version 1");
    await isGivenBack();
    await push("delayed", "version 2");
    await arrives("delayed", "version 2");
  });

  it("waits because its request may still arrive: waits only until it cannot arrive any more", async () => {
    await syncThenArm("ambiguous", { fault: "reset", when: "after" });
    const startedAt = performance.now();
    await push("ambiguous", "version 1");
    await isGivenBack();
    await push("ambiguous", "version 2");
    await arrives("ambiguous", "version 2");
    expect(performance.now() - startedAt).toBeGreaterThan(SERVICE_TIMEOUT_MS);
  });

  it("waits after a 429: is sent instead of the older state, in one request", async () => {
    await syncThenArm("throttled", { fault: "rate-limit", seconds: 4 });
    const before = await updates();
    await push("throttled", "version 1");
    await strikesOnce();
    await push("throttled", "version 2");
    await arrives("throttled", "version 2");
    expect((await updates()) - before).toBe(1);
  });

  it("was rejected: removes the dead letter and is sent", async () => {
    await push("rejected", "version 0");
    await arrives("rejected", "version 0");
    const company = { type: "Company", crmCode: "rejected", name: "Muster & Co" };
    await daemon.push([personEvent("rejected", {}, { data: { record: company } })]);
    const deadLetters = (n: number) =>
      waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === n, {
        what: `${n} dead letters`,
      });
    await deadLetters(1);
    await push("rejected", "version 2");
    await arrives("rejected", "version 2");
    await deadLetters(0);
  });
});

it("an event sent again after its 202 is counted and costs no request", async () => {
  const event = personEvent("again");
  await daemon.push([event]);
  await arrives("again", "Ada");
  await waitUntilSettled(daemon);
  const before = await sandbox.requests();
  const response = await daemon.push([event, event]);
  expect(await response.json()).toEqual({ accepted: 0, duplicates: 2 });
  // The event of a BullMQ client reaches intake, which finds the duplicate.
  const inbox = new Queue("crm-events", { connection: redis, prefix });
  await inbox.add("again", event);
  await waitFor(
    async () => (await daemon.metric("crmsync_changes_total", { outcome: "duplicate" })) === 1,
    {
      what: "the duplicate is counted",
    },
  );
  await inbox.close();
  await waitUntilSettled(daemon);
  expect(await sandbox.requests()).toEqual(before);
});
