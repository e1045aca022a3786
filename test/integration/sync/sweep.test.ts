/** What the sweep restores, a part of a large backlog at a time. */
import { expect, onTestFinished, test } from "vitest";
import { quotaKeys } from "../../../src/quota/quota-keys.ts";
import { startSweep } from "../../../workers/sweep.ts";
import { newRuntime } from "../../support/new-runtime.ts";

/** More than one sweep looks at. */
const RECORDS = 6000;

test("a record whose ended job was kept gets a new job", async () => {
  const runtime = newRuntime();
  const { keys, pointers, redis } = runtime;
  await pointers.add([{ crmCode: "kept", lane: "bulk" }]);
  const [job] = await pointers.queue.getJobs(["prioritized"]);
  await redis.zrem(pointers.queue.toKey("prioritized"), job?.id ?? "");
  await redis.zadd(pointers.queue.toKey("failed"), 1, job?.id ?? "");
  await redis.hset(pointers.queue.toKey(job?.id ?? ""), "finishedOn", 1);
  await redis.zadd(keys.unsynced("bulk"), 1, "kept");
  const sweep = startSweep(runtime);
  onTestFinished(() => sweep.close());
  await expect.poll(() => pointers.queue.getPrioritizedCount()).toBe(1);
  expect(await pointers.queue.getFailedCount()).toBe(0);
});

test("Sweeps go on where the last one ended, and begin with the newest records", async () => {
  const runtime = newRuntime();
  const { config, keys, redis } = runtime;
  const waiting = Array.from({ length: RECORDS }, (_, n) => [n, `record-${n}`]).flat();
  await redis.zadd(keys.unsynced("live"), ...waiting);
  const sweep = startSweep(runtime);
  onTestFinished(() => sweep.close());
  const { priorities } = quotaKeys(config.QUEUE_PREFIX);
  const places = () => redis.zcard(priorities);
  await expect.poll(places).toBeGreaterThanOrEqual(5000);
  await expect.poll(() => redis.hexists(keys.swept, "bulk")).toBe(1);
  expect(await redis.hget(keys.swept, "live")).not.toBe("0");
  expect(await places()).toBeLessThan(RECORDS);
  expect(await redis.zscore(priorities, `record-${RECORDS - 1}`)).toBe(String(RECORDS - 1));
  await redis.del(keys.sweeping);
  const next = startSweep(runtime);
  onTestFinished(() => next.close());
  await expect.poll(places).toBe(RECORDS);
  await expect.poll(() => redis.hget(keys.swept, "live")).toBe("0");
});

test("The sources that were heard last are kept; others, which have no series of their own, are forgotten", async () => {
  const { keys, redis, ...runtime } = newRuntime();
  const sourcesOf = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => `/crm/${from + n}`);
  const heardAt = (source: string) => Number(source.slice("/crm/".length));
  for (const source of sourcesOf(0, 70)) {
    await redis.hset(keys.sources, source, heardAt(source));
    await redis.hset(keys.clocksAhead, source, JSON.stringify({ aheadMs: 9000, at: 1 }));
  }
  const sweep = startSweep({ ...runtime, keys, redis });
  onTestFinished(() => sweep.close());
  await expect.poll(() => redis.hlen(keys.clocksAhead)).toBe(50);
  expect(await redis.hkeys(keys.sources)).toEqual(sourcesOf(20, 70));
  expect(await redis.hkeys(keys.clocksAhead)).toEqual(sourcesOf(20, 70));
});
