import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "bullmq";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SYNC_QUEUE, type Pointer } from "../../../src/state/pointer-queue.ts";
import type { Sendable } from "../../../src/sync/decide.ts";
import type { Lane } from "../../../src/sync/lane.ts";
import { rowWithoutProof } from "../../../src/sync/ledger-row.ts";
import { runRelation } from "../../../workers/run-relation.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { waitFor } from "../../support/wait-for.ts";

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).toReversed()) await close();
});

function startLoop(runtime: Runtime, service: ScriptedService): void {
  const sync = startSync(runtime, service.access());
  closing.push(() => {
    for (const request of service.requests) request.reply({ kind: "throttled" });
    return sync.close();
  });
}

let order = 0;
async function stage(
  { staged }: Runtime,
  crmCode: string,
  firstName: string,
  lane: Lane = "live",
): Promise<void> {
  order += 1;
  const payload = JSON.stringify({ type: "Person", crmCode, firstName, lastName: "Muster" });
  await staged.stage({
    crmCode,
    payload,
    eventKey: `key ${order}`,
    order: `order ${String(order).padStart(4, "0")}`,
    fingerprint: `fingerprint ${order}`,
    variant: "Person",
    status: "mapped",
    lane,
    time: Date.now(),
    event: "{}",
    job: "later",
  });
}

const addPointer = (runtime: Runtime, crmCode: string, lane: Lane = "live") =>
  runtime.pointers.add([{ crmCode, lane }]);

/** The share of the lane is used up. */
async function noPermit(signal: AbortSignal | undefined): Promise<never> {
  for (;;) {
    signal?.throwIfAborted();
    await nextTurn();
  }
}

const nameSent = ({ decision }: { decision: Sendable }) =>
  decision.kind === "fetch" ? undefined : decision.body["firstName"];

it("an event that arrives after its record was settled and before its job ended gets a run", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  const settle = runtime.staged.settle.bind(runtime.staged);
  vi.spyOn(runtime.staged, "settle").mockImplementationOnce(async (...how) => {
    const result = await settle(...how);
    await stage(runtime, "completing", "version 2");
    await addPointer(runtime, "completing");
    return result;
  });
  startLoop(runtime, service);
  await stage(runtime, "completing", "version 1");
  await addPointer(runtime, "completing");
  (await service.nth(1)).reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
});

it("a change that is sent again at once wakes the idle loop", async () => {
  const runtime = newRuntime();
  const { jobNotifier } = runtime;
  const wait = jobNotifier.wait.bind(jobNotifier);
  vi.spyOn(jobNotifier, "wait").mockImplementation((_ms, ...rest) => wait(3_600_000, ...rest));
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stage(runtime, "exists", "version 1");
  await addPointer(runtime, "exists");
  (await service.nth(1)).reply({ kind: "exists" });
  expect((await service.nth(2)).decision.kind).toBe("update");
});

it("a change that was under way when Redis went back is sent once more, not an older one alone", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { keys, redis, staged, stateAge } = runtime;
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stateAge.count();
  await stage(runtime, "under-way", "version 2");
  await addPointer(runtime, "under-way");
  const request = await service.nth(1);
  // The copy has neither the change nor the age that this process has met.
  await redis.del(keys.staged("under-way"), keys.unsynced("live"), keys.age);
  request.reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
  expect(await staged.unsynced(["under-way"])).toEqual(["under-way"]);
});

it("a deletion that needed no request stays newer than an event that is told late", async () => {
  const runtime = newRuntime();
  const { keys, ledger, redis, staged } = runtime;
  const deletion = { payload: undefined, fingerprint: undefined, variant: undefined };
  const common = { crmCode: "gone", lane: "live", time: Date.now(), event: "{}" } as const;
  const newer = {
    ...common,
    ...deletion,
    status: "terminated",
    order: "2",
    eventKey: "2",
  } as const;
  await staged.stage(newer);
  const other = { ...rowWithoutProof(false), exists: true };
  await ledger.writePage([["other", other]], undefined);
  const service = new ScriptedService();
  startLoop(runtime, service);
  await waitFor(async () => (await redis.exists(keys.unsynced("live"))) === 0, {
    what: "the deletion is settled",
  });
  // As the sweep does once a day.
  expect(await ledger.forgetAbsent(Date.now() - 60_000)).toBe(0);
  const older = { ...common, payload: "{}", fingerprint: "f", variant: "Person" } as const;
  const late = { ...older, status: "mapped", order: "1", eventKey: "1" } as const;
  expect(await staged.stage(late)).toMatchObject({ result: "nothing_to_terminate" });
  expect(service.requests.length).toBe(0);
});

it("a change that was rejected drops no older one from a Redis that went back", async () => {
  const runtime = newRuntime();
  const { deadLetters, keys, redis, settledLately, staged } = runtime;
  const service = new ScriptedService();
  const sync = startSync(runtime, service.access());
  const common = { crmCode: "r", lane: "live", time: Date.now(), event: "{}" } as const;
  const fields = { payload: "{}", variant: "Person", status: "mapped" } as const;
  const stageAt = (order: string) =>
    staged.stage({ ...common, ...fields, order, eventKey: order, fingerprint: order });
  await stageAt("2");
  (await service.nth(1)).reply({ kind: "rejected", status: 400, error: "no" });
  await waitFor(async () => (await redis.exists(keys.unsynced("live"))) === 0, {
    what: "the change is rejected",
  });
  await sync.close();
  // The copy has the older state alone.
  await deadLetters.drop("c:r");
  await stageAt("1");
  expect(await settledLately.restore()).toBe(0);
  expect(await staged.unsynced(["r"])).toEqual(["r"]);
});

it.each(["live", "bulk"] as const)(
  "a %s change whose key was deleted waits no more",
  async (lane) => {
    const runtime = newRuntime();
    const { keys, pointers, redis, staged } = runtime;
    const service = new ScriptedService();
    const state = { payload: "{}", fingerprint: "f", variant: "Person", status: "mapped" } as const;
    const common = { crmCode: "r", order: "1", eventKey: "1", time: Date.now(), event: "{}" };
    await staged.stage({ ...common, ...state, lane });
    await redis.del(keys.staged("r"));
    startLoop(runtime, service);
    await waitFor(async () => (await redis.exists(keys.unsynced(lane))) === 0, {
      what: "nothing waits",
    });
    await waitFor(async () => (await pointers.queue.getJobCountByTypes()) === 0, {
      what: "its job has ended",
    });
    expect(service.permitRequests).toBe(1);
  },
);

it("the retry of a live change does not wait for the permit of a bulk change", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "500" });
  const service = new ScriptedService();
  const access = service.access();
  const acquire: typeof access.quota.acquire = async (lane, signal) => {
    if (lane === "bulk") await noPermit(signal);
    return access.quota.acquire(lane, signal);
  };
  const sync = startSync(runtime, { ...access, quota: { ...access.quota, acquire } });
  closing.push(() => {
    for (const request of service.requests) request.reply({ kind: "throttled" });
    return sync.close();
  });
  await stage(runtime, "import", "version 1", "bulk");
  await addPointer(runtime, "import", "bulk");
  await stage(runtime, "live", "version 1");
  await addPointer(runtime, "live");
  const failed = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
  (await service.nth(1)).reply(failed);
  expect(nameSent(await service.nth(2))).toBe("version 1");
});

it("a permit for a live change that another process has taken is not spent on a bulk change", async () => {
  const runtime = newRuntime();
  const { demand, keys, pointers, redis } = runtime;
  const service = new ScriptedService();
  const access = service.access();
  const lanes: Lane[] = [];
  const acquire: typeof access.quota.acquire = async (lane, signal) => {
    lanes.push(lane);
    if (lane === "bulk") await noPermit(signal);
    // Meanwhile the other process takes and settles it.
    await pointers.remove("live");
    await demand.take("live");
    await redis.del(keys.staged("live"), keys.unsynced("live"));
    return access.quota.acquire(lane, signal);
  };
  await stage(runtime, "import", "version 1", "bulk");
  await addPointer(runtime, "import", "bulk");
  await stage(runtime, "live", "version 1");
  await addPointer(runtime, "live");
  const sync = startSync(runtime, { ...access, quota: { ...access.quota, acquire } });
  closing.push(() => {
    for (const request of service.requests) request.reply({ kind: "throttled" });
    return sync.close();
  });
  await waitFor(() => lanes.length === 2 || service.requests.length > 0, { what: "it goes on" });
  expect(lanes).toEqual(["live", "bulk"]);
  expect(service.requests.length).toBe(0);
  expect(await pointers.queue.getPrioritizedCount()).toBe(1);
});

it("an event that arrives during a request gets a run after the request has ended", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stage(runtime, "active", "version 1");
  await addPointer(runtime, "active");
  const first = await service.nth(1);
  await stage(runtime, "active", "version 2");
  await addPointer(runtime, "active");
  // A second job, which BullMQ's deduplication allows after the loss of its key.
  await runtime.pointers.queue.add("sync", { crmCode: "active" });
  await waitFor(async () => (await runtime.pointers.queue.getDelayedCount()) === 1, {
    what: "the second job of the record is delayed",
  });
  expect(service.requests.length).toBe(1);
  first.reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
});

it("a worker that was frozen between taking a record and sending gives the record back", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  const take = runtime.staged.take.bind(runtime.staged);
  const now = performance.now.bind(performance);
  vi.spyOn(runtime.staged, "take").mockImplementationOnce(async (...what) => {
    const taken = await take(...what);
    vi.spyOn(performance, "now").mockImplementation(() => now() + 6000);
    return taken;
  });
  const settled = vi.spyOn(runtime.staged, "settle");
  startLoop(runtime, service);
  await stage(runtime, "slept", "version 1");
  await addPointer(runtime, "slept");
  await waitFor(() => settled.mock.calls.length > 0, { what: "the record is settled" });
  expect(settled.mock.calls[0]?.[1]).toMatchObject({ row: "before", finished: false });
  expect(nameSent(await service.nth(1))).toBe("version 1");
  expect(settled.mock.calls.length).toBe(1);
});

it("a change that cannot be opened ends no process, also when its job's lock has expired meanwhile", async () => {
  const runtime = newRuntime();
  const { config, keys, pointers, redis } = runtime;
  const access = new ScriptedService().access();
  await stage(runtime, "sealed", "version 1");
  await addPointer(runtime, "sealed");
  await redis.hset(keys.staged("sealed"), "p", "eyJ, sealed with no key of ours");
  const connection = { connection: redis, prefix: config.QUEUE_PREFIX, autorun: false };
  const worker = new Worker<Pointer>(SYNC_QUEUE, null, connection);
  closing.push(() => worker.close());
  const job = await worker.getNextJob("token");
  if (job === undefined) throw new Error("there is no job");
  await redis.del(`${pointers.queue.toKey(job.id ?? "")}:lock`);
  const permit = await access.quota.acquire("live");
  expect(await runRelation(job, "token", permit, runtime, access)).toBeUndefined();
});

it("no job is taken without a permit", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  service.permits = 0;
  startLoop(runtime, service);
  await stage(runtime, "no permit", "version 1");
  await addPointer(runtime, "no permit");
  await waitFor(() => service.permitRequests > 0, { what: "a permit is requested" });
  expect(await runtime.pointers.queue.getJobCounts("active", "prioritized")).toEqual({
    active: 0,
    prioritized: 1,
  });
  await stage(runtime, "no permit", "version 2");
  service.permits = 1;
  expect(nameSent(await service.nth(1))).toBe("version 2");
});

describe("a permit that is requested when an event arrives", () => {
  /** The loop has served a change, without a wait for its permit. */
  async function afterChange() {
    const runtime = newRuntime();
    const service = new ScriptedService();
    startLoop(runtime, service);
    await stage(runtime, "first", "version 1");
    await addPointer(runtime, "first");
    (await service.nth(1)).reply({ kind: "created" });
    // The scripted service spends no permits.
    await waitFor(() => service.cancelled === 1, { what: "the run has ended" });
    await waitFor(
      () => {
        runtime.rest.expectChange();
        return service.permitRequests === 2;
      },
      { what: "a permit is requested early" },
    );
    return { runtime, service };
  }

  it("serves the change that follows", async () => {
    const { runtime, service } = await afterChange();
    await stage(runtime, "second", "version 1");
    await addPointer(runtime, "second");
    await service.nth(2);
    expect(service).toMatchObject({ permitRequests: 2, cancelled: 1 });
  });

  it("is given back when none follows, and no other is requested early", async () => {
    const { runtime, service } = await afterChange();
    await waitFor(() => service.cancelled === 2, { what: "the permit is given back" });
    runtime.rest.expectChange();
    await stage(runtime, "second", "version 1");
    await addPointer(runtime, "second");
    await service.nth(2);
    expect(service).toMatchObject({ permitRequests: 3, cancelled: 2 });
  });

  it("is given back at the end of the process", async () => {
    const { service } = await afterChange();
    await closing.pop()?.();
    await waitFor(() => service.cancelled === 2, { what: "the permit is given back" });
  });
});

it("a record is taken together with its job, by one worker", async () => {
  const runtime = newRuntime();
  const service = new ScriptedService();
  const early = vi.spyOn(runtime.staged, "takeWithJob");
  const late = vi.spyOn(runtime.staged, "take");
  startLoop(runtime, service);
  await stage(runtime, "4711", "version 1");
  await runtime.demand.changed([{ crmCode: "4711", lane: "live" }]);
  await addPointer(runtime, "4711");
  expect(nameSent(await service.nth(1))).toBe("version 1");
  expect(early).toHaveBeenCalledTimes(1);
  expect(late).not.toHaveBeenCalled();
});
