import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter } from "../../../src/sandbox/quota.ts";
import type { Limits, Policy } from "../../../src/sandbox/quota.ts";

const LIMITS: Limits = { perHour: 10, hourMs: 1000, burst: 4, burstMs: 50 };

/** Requests after these pauses; the times of the granted ones. */
function grantedTimes(policy: Policy, pauses: readonly number[]): number[] {
  const meter = createMeter(policy, LIMITS);
  let now = 0;
  return pauses.flatMap((pause) => {
    now += pause;
    return meter.take(now).granted ? [now] : [];
  });
}

/** The most that any span of this length holds, its start included and its end not. */
function most(times: readonly number[], lengthMs: number): number {
  return Math.max(
    0,
    ...times.map((start) => times.filter((t) => t >= start && t < start + lengthMs).length),
  );
}

const pauses = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 120 });

describe("sliding", () => {
  test("no span of an hour or of a burst window holds more than its limit", () => {
    fc.assert(
      fc.property(pauses, (given) => {
        const times = grantedTimes("sliding", given);
        expect(most(times, LIMITS.hourMs)).toBeLessThanOrEqual(LIMITS.perHour);
        expect(most(times, LIMITS.burstMs)).toBeLessThanOrEqual(LIMITS.burst);
      }),
    );
  });
});

describe("fixed", () => {
  test("a window opens with its first request and gives the whole limit when it closes", () => {
    const meter = createMeter("fixed", { ...LIMITS, burst: 100 });
    const takes = (now: number, count: number): boolean[] =>
      Array.from({ length: count }, () => meter.take(now).granted);
    expect(takes(500, 1)).toEqual([true]);
    expect(takes(1499, 10).filter(Boolean)).toHaveLength(9);
    expect(takes(1500, 11).filter(Boolean)).toHaveLength(10);
  });
});

describe("bucket", () => {
  test("holds one burst and gains tokens at the hour's rate", () => {
    const meter = createMeter("bucket", LIMITS);
    const burst = Array.from({ length: 5 }, () => meter.take(0).granted);
    expect(burst).toEqual([true, true, true, true, false]);
    expect(meter.take(99).granted).toBe(false);
    expect(meter.take(100).granted).toBe(true);
    expect(meter.take(100).granted).toBe(false);
    expect(meter.state(10_000).remaining).toBe(4);
  });
});

describe.each<Policy>(["fixed", "sliding", "bucket"])("%s", (policy) => {
  test("a refused request is served at the time it is told, and not before", () => {
    fc.assert(
      fc.property(pauses, (given) => {
        const meter = createMeter(policy, LIMITS);
        let now = 0;
        for (const pause of given) {
          now += pause;
          const verdict = meter.take(now);
          if (verdict.granted) continue;
          expect(verdict.retryAtMs).toBeGreaterThan(now);
          expect(meter.take(verdict.retryAtMs - 0.001).granted).toBe(false);
          expect(meter.take(verdict.retryAtMs).granted).toBe(true);
          now = verdict.retryAtMs;
        }
      }),
    );
  });

  test("remaining falls by one with each request, and refused ones cost nothing", () => {
    const meter = createMeter(policy, LIMITS);
    const remaining = Array.from({ length: 6 }, () => meter.take(7).remaining);
    const first = policy === "bucket" ? 3 : 9;
    expect(remaining).toEqual([first, first - 1, first - 2, first - 3, first - 3, first - 3]);
  });
});
