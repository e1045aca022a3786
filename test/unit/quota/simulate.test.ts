/** The simulator: coalescing, the windows of the quota, lanes, and what no schedule can beat (bench/lower-bound.ts). */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { lowerBound } from "../../../bench/lower-bound.ts";
import { agesOf, simulate, type Settings } from "../../../bench/simulate.ts";
import type { Change } from "../../../bench/waiting-records.ts";

const HOUR_MS = 3_600_000;

const settingsOf = (given: Partial<Settings> = {}): Settings => ({
  perHour: 1000,
  hourMs: HOUR_MS,
  burst: 20,
  burstMs: 5000,
  liveReserve: 100,
  latencyMs: 80,
  concurrency: 10,
  ...given,
});

const agesIn = (changes: readonly Change[], settledAt: Float64Array): number[] =>
  changes.map(({ at }, index) => (settledAt[index] ?? 0) - at);

/** A quota so small that a second request of the hour must wait. */
const ONE = settingsOf({ perHour: 1, burst: 1, liveReserve: 0 });

test("changes that wait become one request, for the newest state", () => {
  const changes = [0, 1000, 2000].map((at) => ({ at, record: 1 }));
  const { requests, settledAt } = simulate(changes, ONE);
  expect(requests).toEqual([0, HOUR_MS + 80]);
  expect(agesIn(changes, settledAt)).toEqual([80, HOUR_MS - 840, HOUR_MS - 1840]);
});

test("a record waits while its request is under way", () => {
  const changes = [
    { at: 0, record: 1 },
    { at: 10, record: 1 },
    { at: 20, record: 2 },
  ];
  const slow = settingsOf({ latencyMs: 1000 });
  expect(simulate(changes, slow).requests).toEqual([0, 20, 1000]);
});

test("bulk changes leave the reserve to live ones, and a live change of the record promotes them", () => {
  const bulk = Array.from({ length: 20 }, (_, record) => ({
    at: 0,
    record,
    lane: "bulk" as const,
  }));
  const live = { at: 60_000, record: 99 };
  const promoted = { at: 120_000, record: 19 };
  const changes = [...bulk, live, promoted];
  const { settledAt } = simulate(changes, settingsOf({ perHour: 10, liveReserve: 4 }));
  const ages = agesIn(changes, settledAt);
  expect(ages.filter((age) => age < HOUR_MS)).toHaveLength(9);
  expect(ages.slice(-2)).toEqual([80, 80]);
  expect(settledAt[19]).toBe(settledAt.at(-1));
});

test("a change of the year 1 takes no longer than others", () => {
  const changes = ["0001-01-01", "2026-11-25"].map((day, record) => ({
    at: Date.parse(day),
    record,
  }));
  expect(simulate(changes, settingsOf()).requests).toHaveLength(2);
});

/** From everything at once, which takes hours, to a change now and then. */
const spans = fc.constantFrom(1, 10_000, 600_000, 5 * HOUR_MS);

const changesIn = (span: number, records: number): fc.Arbitrary<Change[]> =>
  fc
    .array(
      fc.record({
        at: fc.nat(span),
        record: fc.nat(records),
        lane: fc.constantFrom("live" as const, "bulk" as const),
      }),
      { minLength: 1, maxLength: 150 },
    )
    .map((drawn) => drawn.toSorted((a, b) => a.at - b.at));

const loads = fc.record({
  settings: fc
    .record({
      perHour: fc.integer({ min: 3, max: 40 }),
      hourMs: fc.constantFrom(60_000, HOUR_MS),
      burst: fc.integer({ min: 1, max: 10 }),
      burstMs: fc.constantFrom(500, 5000),
      liveReserve: fc.integer({ min: 0, max: 2 }),
      latencyMs: fc.constantFrom(0, 80, 3000),
      concurrency: fc.integer({ min: 1, max: 10 }),
    })
    .map(settingsOf),
  changes: fc
    .tuple(spans, fc.constantFrom(0, 5, 200))
    .chain(([span, records]) => changesIn(span, records)),
});

function mostWithin(times: readonly number[], ms: number): number {
  return Math.max(
    ...times.map((from) => times.filter((at) => at >= from && at < from + ms).length),
  );
}

test("whatever comes: no window is exceeded, and every change is sent", () => {
  fc.assert(
    fc.property(loads, ({ changes, settings }) => {
      const { requests, settledAt } = simulate(changes, settings);
      expect(mostWithin(requests, settings.hourMs)).toBeLessThanOrEqual(settings.perHour);
      expect(mostWithin(requests, settings.burstMs)).toBeLessThanOrEqual(settings.burst);
      expect(Math.min(...agesIn(changes, settledAt))).toBeGreaterThanOrEqual(0);
      expect(requests.length).toBeGreaterThanOrEqual(new Set(changes.map((c) => c.record)).size);
    }),
    { numRuns: 150 },
  );
});

test("whatever comes: no figure is below what no schedule can beat", () => {
  fc.assert(
    fc.property(loads, ({ changes, settings }) => {
      const { settledAt } = simulate(changes, settings);
      const ages = agesOf(Float64Array.from(agesIn(changes, settledAt)));
      const bound = lowerBound(changes, settings);
      for (const figure of ["p50", "mean", "p99", "max"] as const) {
        expect(bound[figure], figure).toBeLessThanOrEqual(ages[figure] + 1e-6);
      }
    }),
    { numRuns: 150 },
  );
});

test("the bound is what a schedule could reach", () => {
  // 500 new records take 25 bursts: the last one starts after 120 s, and the mean is half of that.
  const atOnce = Array.from({ length: 500 }, (_, record) => ({ at: 0, record }));
  const bound = lowerBound(atOnce, settingsOf());
  expect(bound.max).toBeGreaterThan(0.9 * 120_000);
  expect(bound.p50).toBeGreaterThan(0.8 * 60_000);
  expect(bound.mean).toBeGreaterThan(0.7 * 60_000);
  // 2000 new records need a second hour.
  const many = Array.from({ length: 2000 }, (_, record) => ({ at: 0, record }));
  expect(lowerBound(many, settingsOf()).p99).toBeGreaterThan(0.95 * HOUR_MS);
  const twoBursts = lowerBound(atOnce.slice(0, 40), settingsOf());
  expect(twoBursts.max).toBeGreaterThan(0.9 * 5000);
  expect(twoBursts.max).toBeLessThanOrEqual(5000);
  // What fits into the quota can be sent at once.
  const few = Array.from({ length: 20 }, (_, record) => ({ at: 0, record }));
  expect(lowerBound(few, settingsOf())).toEqual({ p50: 0, mean: 0, p99: 0, max: 0 });
});
