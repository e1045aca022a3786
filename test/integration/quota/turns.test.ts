/** Turns in a flow that does not fit into the hour: who waits, and who may be early. */
import { afterEach, expect, test } from "vitest";
import { takeTimeFrom } from "../../../src/ops/redis-script.ts";
import { createDemand } from "../../../src/quota/demand.ts";
import { Pacer, type Turn } from "../../../src/quota/pacer.ts";
import { quotaKeys } from "../../../src/quota/quota-keys.ts";
import { sliceMs } from "../../../src/quota/slices.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { openRedis } from "./support.ts";

const HOUR_MS = 3_600_000;
const SLICE_MS = sliceMs(HOUR_MS);

afterEach(() => takeTimeFrom(() => undefined));

/** An hour with 100 requests left, and one record that changes each 1.5 s; its permits take all turns that have come. */
async function scarceHour() {
  const redis = openRedis();
  const prefix = uniquePrefix();
  const keys = quotaKeys(prefix);
  const demand = createDemand(redis, { prefix, hourMs: HOUR_MS });
  const quota = { perHour: 1000, hourMs: HOUR_MS, hourHoldMs: 0, burst: 20, liveReserve: 0 };
  const pacer = new Pacer(redis, keys, { ...quota, pacing: "burst" });
  const clock = { now: 1_764_000_000_000 };
  takeTimeFrom(() => clock.now);
  await redis.hset(keys.hourSettings, { maxConcurrent: 1000, running: 900, done: 0 });
  for (let n = 0; n < 4 * 20; n += 1, clock.now += SLICE_MS / 20) {
    await demand.changed([{ crmCode: "hot", lane: "live" }]);
    await demand.take("hot");
  }
  await demand.changed([{ crmCode: "hot", lane: "live" }]);
  let turn: Turn = await pacer.takeTurn("live", "permit");
  while (turn.kind === "taken") turn = await pacer.takeTurn("live", "permit");
  return { clock, demand, pacer, waits: turn };
}

test("a record that often changes waits, and its process looks again twice a second", async () => {
  const { clock, pacer, waits } = await scarceHour();
  expect(waits.ms).toBe(HOUR_MS / 7200);
  clock.now += 10_000;
  expect(await pacer.takeTurn("live", "permit")).toMatchObject({ kind: "wait" });
});

test("a rare change that comes meanwhile is sent at once, and moves the next turn on", async () => {
  const { demand, pacer } = await scarceHour();
  await demand.changed([{ crmCode: "rare", lane: "live" }]);
  expect(await demand.highest()).toMatchObject({ crmCode: "rare" });
  expect(await pacer.takeTurn("live", "permit")).toMatchObject({ kind: "taken" });
  await demand.take("rare");
  expect(await pacer.takeTurn("live", "permit")).toMatchObject({ kind: "wait" });
});

test("a record that waits takes its turn early by three quarters of its lead", async () => {
  const { clock, pacer } = await scarceHour();
  const began = clock.now;
  let turn: Turn = { kind: "wait", ms: 0 };
  for (; turn.kind === "wait"; clock.now += 500) turn = await pacer.takeTurn("live", "permit");
  // Seventy requests for an hour: a turn each 51.4 s. After 29.4 s the lead is 29.4 s, of which three quarters
  // are the 22 s that are left.
  expect(Math.abs(clock.now - began - 29_400)).toBeLessThan(1000);
});

test("bulk work takes no turn early, and looks at none of the live ones", async () => {
  const { pacer } = await scarceHour();
  const turn = await pacer.takeTurn("bulk", "permit");
  expect(turn.kind).toBe("wait");
  expect(turn.kind === "wait" && turn.ms).toBeGreaterThan(30_000);
});
