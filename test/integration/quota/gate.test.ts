/** The limiter of one process: two chained Bottlenecks, tuned to the limits of the service. */
import { expect, onTestFinished, test } from "vitest";
import { createGate, PRIORITY } from "../../../src/quota/issue-permits.ts";
import { openQuota } from "./support.ts";

function openGate(limits: Partial<Parameters<typeof createGate>[0]> = {}) {
  const gate = createGate({
    perHour: 1000,
    hourMs: 3_600_000,
    burst: 20,
    burstMs: 5000,
    ...limits,
  });
  onTestFinished(() => gate.close());
  return gate;
}

/** When each of this many jobs ran, ms after the first. */
async function run(gate: ReturnType<typeof createGate>, count: number): Promise<number[]> {
  const times: number[] = [];
  const job = async () => void times.push(performance.now());
  await Promise.all(Array.from({ length: count }, () => gate.pass(PRIORITY.live, job)));
  return times.map((time) => time - (times[0] ?? 0));
}

test("a burst passes at once, and the next one after its window", async () => {
  const times = await run(openGate({ burst: 5, burstMs: 1000 }), 6);
  expect(times[4]).toBeLessThan(500);
  expect(times[5]).toBeGreaterThan(600);
});

test("the hour limits as well", async () => {
  const times = await run(openGate({ perHour: 3, hourMs: 1500 }), 4);
  expect(times[2]).toBeLessThan(500);
  expect(times[3]).toBeGreaterThan(1000);
});

test("live calls go before bulk ones, and a bulk call that made way before the others", async () => {
  const gate = openGate();
  const order: string[] = [];
  const hold = Promise.withResolvers<void>();
  const running = gate.pass(PRIORITY.live, () => hold.promise);
  const passes = (["bulk", "live", "returned"] as const).map((name) =>
    gate.pass(PRIORITY[name], async () => void order.push(name)),
  );
  hold.resolve();
  await Promise.all([running, ...passes]);
  expect(order).toEqual(["live", "returned", "bulk"]);
});

test("what was not used is given back", async () => {
  const gate = openGate({ burst: 2, burstMs: 60_000 });
  await run(gate, 2);
  await gate.giveBack("both");
  await run(gate, 1);
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
