import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Limits, type Policy } from "../../../src/sandbox/quota.ts";

const LIMITS: Limits = { perHour: 10, hourMs: 1000, burst: 4, burstMs: 50 };

/** Sends requests after these pauses; returns the times of the counted ones. */
function countedTimes(policy: Policy, pauses: readonly number[]): number[] {
  const meter = createMeter(policy, LIMITS);
  let now = 0;
  return pauses.flatMap((pause) => {
    now += pause;
    return meter.count(now).counted ? [now] : [];
  });
}

/** The largest number of times in any span of this length (start inclusive, end exclusive). */
function most(times: readonly number[], lengthMs: number): number {
  return Math.max(
    0,
    ...times.map((start) => times.filter((t) => t >= start && t < start + lengthMs).length),
  );
}

const pauses = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 120 });

describe("sliding", () => {
  test("no span of an hour or of a burst window exceeds its limit", () => {
    fc.assert(
      fc.property(pauses, (given) => {
        const times = countedTimes("sliding", given);
        expect(most(times, LIMITS.hourMs)).toBeLessThanOrEqual(LIMITS.perHour);
        expect(most(times, LIMITS.burstMs)).toBeLessThanOrEqual(LIMITS.burst);
      }),
    );
  });
});

describe("fixed", () => {
  test("a window opens with its first request; after its end the full limit is available", () => {
    const meter = createMeter("fixed", { ...LIMITS, burst: 100 });
    const counts = (now: number, count: number): boolean[] =>
      Array.from({ length: count }, () => meter.count(now).counted);
    expect(counts(500, 1)).toEqual([true]);
    expect(counts(1499, 10).filter(Boolean)).toHaveLength(9);
    expect(counts(1500, 11).filter(Boolean)).toHaveLength(10);
  });
});

describe("bucket", () => {
  test("holds one burst and gains tokens at the hour's rate", () => {
    const meter = createMeter("bucket", LIMITS);
    const burst = Array.from({ length: 5 }, () => meter.count(0).counted);
    expect(burst).toEqual([true, true, true, true, false]);
    expect(meter.count(99).counted).toBe(false);
    expect(meter.count(100).counted).toBe(true);
    expect(meter.count(100).counted).toBe(false);
    // The headers are about the hour, in which five were counted, not about the bucket.
    expect(meter.state(100).remaining).toBe(LIMITS.perHour - 5);
    expect(meter.state(10_000).remaining).toBe(LIMITS.perHour);
  });

  test("a full bucket adds nothing to the hour", () => {
    const meter = createMeter("bucket", LIMITS);
    const counted = Array.from({ length: LIMITS.hourMs }, (_, now) => meter.count(now).counted);
    expect(counted.filter(Boolean)).toHaveLength(LIMITS.perHour);
  });
});

describe.each<Policy>(["fixed", "sliding", "bucket"])("%s", (policy) => {
  test("a request over the limit succeeds at retryAtMs, and not before", () => {
    fc.assert(
      fc.property(pauses, (given) => {
        const meter = createMeter(policy, LIMITS);
        let now = 0;
        for (const pause of given) {
          now += pause;
          const result = meter.count(now);
          if (result.counted) continue;
          expect(result.retryAtMs).toBeGreaterThan(now);
          expect(meter.count(result.retryAtMs - 0.001).counted).toBe(false);
          expect(meter.count(result.retryAtMs).counted).toBe(true);
          now = result.retryAtMs;
        }
      }),
    );
  });

  test("a quota that is full is full now", () => {
    const meter = createMeter(policy, LIMITS);
    expect(meter.state(7)).toMatchObject({ remaining: LIMITS.perHour, resetAtMs: 7 });
    expect(meter.count(7).resetAtMs).toBe(7 + LIMITS.hourMs);
    expect(meter.state(9000)).toMatchObject({ remaining: LIMITS.perHour, resetAtMs: 9000 });
  });

  test("remaining falls by one with each counted request only", () => {
    const meter = createMeter(policy, LIMITS);
    const remaining = Array.from({ length: 6 }, () => meter.count(7).remaining);
    expect(remaining).toEqual([9, 8, 7, 6, 6, 6]);
  });
});
