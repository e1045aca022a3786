/** The limiter of one process: two chained Bottlenecks, tuned to the limits of the service. */
import { expect, onTestFinished, test } from "vitest";
import { limiterOf } from "../../../src/core/quota/quota.ts";
import { openQuota, spend } from "./support.ts";

/** When each of this many jobs ran, ms after the first. */
async function run(limit: number, windowMs: number, count: number): Promise<number[]> {
  const limiter = limiterOf(limit, windowMs);
  onTestFinished(() => limiter.disconnect(false));
  const times: number[] = [];
  const job = async () => void times.push(performance.now());
  await Promise.all(Array.from({ length: count }, () => limiter.schedule(job)));
  return times.map((time) => time - (times[0] ?? 0));
}

test("what the window allows passes at once, and the next call after the window", async () => {
  const times = await run(5, 1000, 6);
  expect(times[4]).toBeLessThan(500);
  expect(times[5]).toBeGreaterThan(600);
});

test("calls that are aborted by the dozen cost nothing of the limits", async () => {
  const { quota } = await openQuota({ perHour: 100, hourMs: 3_600_000, burst: 5 });
  const abort = new AbortController();
  const calls = Array.from({ length: 60 }, () => quota.acquire("live", abort.signal));
  const first = await calls[0];
  abort.abort(new Error("enough"));
  await Promise.allSettled(calls.slice(1));
  first?.cancel();
  const permits = await Promise.all(Array.from({ length: 5 }, () => quota.acquire("live")));
  expect(permits).toHaveLength(5);
});

test("a call that gives up again and again waits for the limiter once", async () => {
  const { quota } = await openQuota({ perHour: 5, hourMs: 2000, burst: 5, burstMs: 100 });
  const [started = 0] = await spend(quota, 5);
  for (let n = 0; n < 60; n += 1) {
    const abort = new AbortController();
    const waiting = quota.acquire("bulk", abort.signal);
    abort.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  }
  for (let n = 0; n < 5; n += 1) await quota.acquire("bulk");
  // Sixty waits would take twelve hours of 2 s.
  expect(performance.now() - started).toBeLessThan(8 * 2000);
});
