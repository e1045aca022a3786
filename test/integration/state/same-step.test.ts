/** A change that is staged is counted and has its pointer job, in one step of Redis. */
import { Worker, type Job } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { storeRow } from "../../../src/state/ledger-row.ts";
import type { Pointer } from "../../../src/state/pointer-queue.ts";
import type { Lane } from "../../../src/sync/lane.ts";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const PROVEN = storeRow({
  exists: true,
  uncertain: false,
  fingerprint: "proven",
  terminated: false,
  variant: "Person",
  watermark: "1",
  provedAt: 1,
});

let order = 0;
function change(crmCode: string, extra: Partial<StateToStage> = {}): StateToStage {
  order += 1;
  return {
    crmCode,
    eventKey: `key ${order}`,
    order: `order ${String(order).padStart(4, "0")}`,
    payload: JSON.stringify({ type: "Person", crmCode, firstName: "Ada", lastName: `M${order}` }),
    fingerprint: `fingerprint ${order}`,
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: Date.now(),
    event: "{}",
    ...extra,
  };
}

const jobsOf = ({ pointers }: Runtime) =>
  pointers.queue.getJobs(["wait", "prioritized", "delayed", "active"]);

/** All that BullMQ keeps of the only job, without its time, and its id once. */
async function storedIn(runtime: Runtime) {
  const { pointers, redis } = runtime;
  const { queue } = pointers;
  const [{ id = "" } = {}] = await jobsOf(runtime);
  const { opts: text = "", timestamp, ...job } = await redis.hgetall(queue.toKey(id));
  expect(Math.abs(Number(timestamp) - Date.now())).toBeLessThan(60_000);
  // BullMQ's own client writes the id there too, and reads it nowhere.
  const { jobId: _, ...opts } = JSON.parse(text) as Record<string, unknown>;
  const stream = await redis.xrange(queue.toKey("events"), "-", "+");
  const keys = (await redis.keys(queue.toKey("*"))).map((key) => key.slice(queue.toKey("").length));
  return {
    job,
    opts,
    score: await redis.zscore(queue.toKey("prioritized"), id),
    marker: await redis.zrange(queue.toKey("marker"), "0", "-1", "WITHSCORES"),
    events: stream.map(([, fields]) => fields),
    keys: keys.toSorted(),
  };
}

test.for<Lane>(["live", "bulk"])("its job is as BullMQ itself adds it, lane %s", async (lane) => {
  const [own, bullmq] = [newRuntime(), newRuntime()];
  await own.staged.stage(change("a/4711 é", { lane }));
  await bullmq.pointers.add([{ crmCode: "a/4711 é", lane }]);
  const stored = await storedIn(own);
  const expected = await storedIn(bullmq);
  // Lua writes JSON in its own way.
  const data = (text = "") => JSON.parse(text) as unknown;
  expect({ ...stored, job: { ...stored.job, data: data(stored.job["data"]) } }).toEqual({
    ...expected,
    job: { ...expected.job, data: data(expected.job["data"]) },
  });
  expect(stored.job["data"]).toContain("4711 é");
  const [job] = (await jobsOf(own)) as Job<Pointer>[];
  expect(job?.data).toEqual({ crmCode: "a/4711 é" });
});

test("a change that replaces a waiting one, or needs no request, adds no job", async () => {
  const runtime = newRuntime();
  const { demand, pointers, redis, staged } = runtime;
  const heard: string[] = [];
  const listener = redis.duplicate();
  onTestFinished(() => listener.disconnect());
  await listener.subscribe(runtime.keys.jobsAdded);
  listener.on("message", (_, message) => heard.push(message));
  const older = change("1", { lane: "bulk" });
  await staged.stageAll([change("1", { lane: "bulk" }), change("2", { lane: "bulk" })]);
  await staged.stageAll([change("2"), change("2"), older, change("3", { job: "later" })]);
  const jobs = await jobsOf(runtime);
  expect(jobs.map((job) => job.data.crmCode).toSorted()).toEqual(["1", "2"]);
  expect(await demand.take("1")).toBeUndefined();
  expect(await demand.take("2")).toBeDefined();
  expect(await demand.take("3")).toBeUndefined();
  await pointers.add([{ crmCode: "4", lane: "live" }]);
  await expect.poll(() => heard).toEqual(["bulk", "live"]);
});

test("a change that is taken back while it waits gives up its place in the order", async () => {
  const runtime = newRuntime();
  const { demand, keys, redis, staged } = runtime;
  await redis.hset(keys.ledger, "1", PROVEN, "2", PROVEN, "3", PROVEN);
  const back = (crmCode: string) => change(crmCode, { fingerprint: "proven" });
  await staged.stageAll([change("1"), change("2")]);
  const place = await demand.take("2");
  await demand.place({ crmCode: "2", rank: place ?? "" }, 60_000);
  await staged.stageAll([back("1"), back("2"), change("3"), back("3"), change("4"), back("4")]);
  const left = await Promise.all(["1", "2", "3", "4"].map((crmCode) => demand.take(crmCode)));
  expect(left.map((rank) => rank !== undefined)).toEqual([false, false, false, true]);
  await staged.stageAll([change("5"), change("5"), back("3"), change("3")]);
  expect(await demand.take("3")).toBeDefined();
});

test.for<Lane>(["live", "bulk"])("a restored job is as a staged one, lane %s", async (lane) => {
  const [own, restored] = [newRuntime(), newRuntime()];
  await own.staged.stage(change("4711", { lane }));
  await restored.staged.stage(change("4711", { lane, job: "later" }));
  expect(await restored.pointers.restore("4711")).toBe(true);
  expect(await storedIn(restored)).toEqual(await storedIn(own));
});

test("a change that comes while an older one is sent gets its job when that has ended", async () => {
  const runtime = newRuntime();
  const { pointers, redis, staged } = runtime;
  await staged.stage(change("1"));
  const worker = new Worker<Pointer>(pointers.queue.name, undefined, {
    connection: redis.duplicate(),
    prefix: runtime.config.QUEUE_PREFIX,
    removeOnComplete: { count: 0 },
  });
  onTestFinished(() => worker.close());
  const job = await worker.getNextJob("token");
  expect(await staged.take("1", "token", 60_000)).toMatchObject({ kind: "taken" });
  await staged.stage(change("1", { trace: "its trace" }));
  expect((await jobsOf(runtime)).length).toBe(1);
  expect(await pointers.restore("1")).toBe(false);
  await job?.moveToCompleted("", "token", false);
  expect(await jobsOf(runtime)).toEqual([]);
  expect(await pointers.restore("1")).toBe(true);
  const next = await worker.getNextJob("token");
  expect(next?.data).toEqual({ crmCode: "1" });
  expect(next?.opts.telemetry?.metadata).toBe("its trace");
  expect(await pointers.restore("unknown")).toBe(false);
});

test("a bulk change that replaces a held live one waits as a live one", async () => {
  const runtime = newRuntime();
  const { demand, keys, pointers, redis, staged } = runtime;
  const nothing = { payload: undefined, fingerprint: undefined, variant: undefined };
  await staged.stage(change("1", { ...nothing, status: "terminated" }));
  const taken = await staged.take("1", "me", 60_000);
  if (taken.kind !== "taken") throw new Error("It is not taken.");
  await staged.settle(taken.state, { row: "before", finished: false, held: true });
  await pointers.remove("1");
  await demand.take("1");
  await staged.stage(change("1", { lane: "bulk" }));
  expect(await redis.zscore(keys.unsynced("live"), "1")).not.toBeNull();
  const [job] = await jobsOf(runtime);
  expect(job?.priority).toBe(pointers.step.livePriority);
  expect(await demand.take("1")).toBeDefined();
});
