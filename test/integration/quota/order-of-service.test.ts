import { expect, it, onTestFinished } from "vitest";
import { Permit } from "../../../src/quota/permit.ts";
import type { Lane } from "../../../src/sync/lane.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import type { ServiceAccess } from "../../../workers/service-access.ts";
import { startSweep } from "../../../workers/sweep.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

const BACKLOG = 300;

/** A retried record may be behind the requests that run at once (SYNC_CONCURRENCY), and a few more. */
const SOON = 40;

const UNAVAILABLE = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
const CREATED = { kind: "created" } as const;

/** Runs the loop against a service whose replies `answer` gives; notes the records in their order. */
function runLoop(
  runtime: Runtime,
  answer: (crmCode: string, times: number) => ServiceReply | Promise<ServiceReply>,
): readonly string[] {
  const served: string[] = [];
  const access = {
    quota: { acquire: async (lane: Lane) => permitOf(lane) },
    isReady: async () => true,
    mayTry: async () => true,
    unfitForTry: async () => new Set<string>(),
    requestOf: () => undefined,
    async send(_permit: Permit, _decision: unknown, crmCode: string) {
      served.push(crmCode);
      return answer(crmCode, served.filter((one) => one === crmCode).length);
    },
  } as unknown as ServiceAccess;
  const sync = startSync(runtime, access);
  onTestFinished(() => sync.close());
  return served;
}

const permitOf = (lane: Lane): Permit =>
  new Permit(lane, {
    fresh: () => true,
    sending() {},
    cancelled() {},
    unsent() {},
    answered: async () => {},
  });

let order = 0;
/** What intake does with one event. */
async function accept(runtime: Runtime, crmCode: string, lane: Lane = "live"): Promise<void> {
  order += 1;
  await runtime.staged.stage({
    crmCode,
    payload: JSON.stringify({ type: "Person", crmCode, firstName: "Ada", lastName: `M${order}` }),
    eventKey: `key ${order}`,
    order: `order ${String(order).padStart(6, "0")}`,
    fingerprint: `fingerprint ${order}`,
    variant: "Person",
    status: "mapped",
    lane,
    time: Date.now(),
    event: "{}",
  });
}

async function acceptBacklog(runtime: Runtime, lane: Lane = "live"): Promise<void> {
  for (let n = 0; n < BACKLOG; n += 1) await accept(runtime, `r${n}`, lane);
}

const allServed = (served: readonly string[], count: number) =>
  waitFor(() => served.length >= count, { what: `${count} requests` });

const lastPlaceOf = (served: readonly string[], crmCode: string) => served.lastIndexOf(crmCode);

for (const lane of ["live", "bulk"] as const) {
  it(`a 503 on an early record of a ${lane} backlog: it is sent again after its delay, not last`, async () => {
    const runtime = newRuntime({ RETRY_BASE_MS: "10" });
    await acceptBacklog(runtime, lane);
    const served = runLoop(runtime, (crmCode, times) =>
      crmCode === "r5" && times === 1 ? UNAVAILABLE : CREATED,
    );
    await allServed(served, BACKLOG + 1);
    expect(lastPlaceOf(served, "r5")).toBeGreaterThan(5);
    expect(lastPlaceOf(served, "r5")).toBeLessThan(SOON);
  });
}

it.each<[string, ServiceReply]>([
  ["a 429", { kind: "throttled" }],
  ["a healed 409", { kind: "exists" }],
])("%s on an early record of a backlog: it is sent again next, not last", async (_name, reply) => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  const served = runLoop(runtime, (crmCode, times) =>
    crmCode === "r5" && times === 1 ? reply : CREATED,
  );
  await allServed(served, BACKLOG + 1);
  expect(lastPlaceOf(served, "r5")).toBeLessThan(SOON);
});

it("a record that is retried again and again is served under a steady overload", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  let added = 0;
  const served = runLoop(runtime, async (crmCode, times) => {
    // One record comes for each that is served: the backlog never shrinks.
    if (added < 2 * BACKLOG) await accept(runtime, `new${(added += 1)}`);
    return crmCode === "r5" && times <= 3 ? UNAVAILABLE : CREATED;
  });
  await waitFor(() => served.filter((one) => one === "r5").length === 4, { what: "four tries" });
  expect(lastPlaceOf(served, "r5")).toBeLessThan(BACKLOG);
});

it("a change that comes while its record runs keeps the record's place", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  let changed = false;
  const served = runLoop(runtime, async (crmCode, times) => {
    if (crmCode !== "r5" || changed) return CREATED;
    changed = true;
    await accept(runtime, "r5");
    return times === 1 ? UNAVAILABLE : CREATED;
  });
  await allServed(served, BACKLOG + 1);
  expect(lastPlaceOf(served, "r5")).toBeLessThan(SOON);
});

it("a record whose place was lost in a crash has one again after a sweep", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await accept(runtime, "lost");
  // The worker that took its place died, and BullMQ gave the job back.
  expect(await runtime.demand.take("lost")).toBeDefined();
  const { redis, keys } = runtime;
  const [, since] = await redis.zrange(keys.unsynced("live"), "0", "0", "WITHSCORES");
  const sweep = startSweep(runtime);
  onTestFinished(() => sweep.close());
  const place = await waitFor(() => runtime.demand.highest(), { what: "a place" });
  expect(place).toEqual({ crmCode: "lost", rank: since });
});

it("a record that waits for a retry is in the order again when it is due, with its place", async () => {
  const { demand } = newRuntime({ RETRY_BASE_MS: "10" });
  await demand.changed([{ crmCode: "first", lane: "live" }]);
  await demand.changed([{ crmCode: "second", lane: "live" }]);
  const rank = await demand.take("first");
  await demand.place({ crmCode: "first", rank: rank ?? "" }, 200);
  expect((await demand.highest())?.crmCode).toBe("second");
  await waitFor(async () => (await demand.highest())?.crmCode === "first", { what: "due" });
  expect(await demand.highest()).toEqual({ crmCode: "first", rank });
});

it("a new change of a record that waits for a retry takes the record's place with it", async () => {
  const { demand } = newRuntime({ RETRY_BASE_MS: "10" });
  await demand.changed([{ crmCode: "first", lane: "live" }]);
  const rank = (await demand.take("first")) ?? "";
  await demand.place({ crmCode: "first", rank }, 60_000);
  expect(await demand.highest()).toBeUndefined();
  await demand.changed([{ crmCode: "first", lane: "live" }]);
  const place = await demand.highest();
  expect(place?.crmCode).toBe("first");
  expect(Number(place?.rank)).toBeLessThan(Number(rank));
});
