/** The simulator: coalescing, the windows of the quota, lanes, and what no schedule can beat (bench/lower-bound.ts). */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { lowerBound } from "../../../bench/lower-bound.ts";
import { agesOf } from "../../../src/simulate/report.ts";
import { simulate, type Settings } from "../../../src/simulate/simulate.ts";
import type { Change } from "../../../src/simulate/waiting-records.ts";

const HOUR_MS = 3_600_000;

const settingsOf = (given: Partial<Settings> = {}): Settings => ({
  perHour: 1000,
  hourMs: HOUR_MS,
  burst: 20,
  burstMs: 5000,
  liveReserve: 100,
  steady: false,
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
  const { requests, counts, settledAt } = simulate(changes, ONE);
  expect(requests).toEqual([0, HOUR_MS + 80]);
  expect(counts).toEqual({ sent: 2, coalesced: 1, unchanged: 0 });
  expect(agesIn(changes, settledAt)).toEqual([80, HOUR_MS - 840, HOUR_MS - 1840]);
});

test("a state that the service has already costs no request, and ends the wait for another one", () => {
  const states = [7, 8, 7, 7];
  const changes = states.map((state, n) => ({ at: 1000 * n, record: 1, state }));
  const { requests, counts, settledAt } = simulate(changes, ONE);
  expect(requests).toEqual([0]);
  expect(counts).toEqual({ sent: 1, coalesced: 1, unchanged: 2 });
  expect(agesIn(changes, settledAt)).toEqual([80, 1000, 0, 0]);
});

test("a record waits while its request is under way", () => {
  const changes = [
    { at: 0, record: 1, state: 1 },
    { at: 10, record: 1, state: 2 },
    { at: 20, record: 2, state: 3 },
  ];
  const slow = settingsOf({ latencyMs: 1000 });
  expect(simulate(changes, slow).requests).toEqual([0, 20, 1000]);
  const back = changes.with(1, { at: 10, record: 1, state: 1 });
  const { requests, counts } = simulate(back, slow);
  expect(requests).toEqual([0, 20]);
  expect(counts).toEqual({ sent: 2, coalesced: 0, unchanged: 1 });
});

test("with kept fields, an update is read, then written; a creation is not read", () => {
  const changes = [
    { at: 0, record: 1, state: 1, creates: true },
    { at: 1000, record: 1, state: 2 },
    { at: 2000, record: 2, state: 3 },
    { at: 2010, record: 2, state: 4 },
    { at: 5000, record: 2, state: 4 },
  ];
  const { requests, counts } = simulate(changes, settingsOf({ readsFirst: true }));
  expect(requests).toEqual([0, 1000, 1080, 2000, 2080]);
  expect(counts).toEqual({ sent: 3, coalesced: 1, unchanged: 1 });
  expect(simulate(changes, settingsOf()).requests).toEqual([0, 1000, 2000, 2080]);
});

test("a change without fields is read, then written; newer fields make the reading enough", () => {
  const deletion = { at: 0, record: 1, state: 1, bare: true };
  expect(simulate([deletion], settingsOf()).requests).toHaveLength(2);
  const update = { at: 10, record: 1, state: 2 };
  const { requests, counts } = simulate([deletion, update], settingsOf());
  expect(requests).toHaveLength(2);
  expect(counts).toEqual({ sent: 1, coalesced: 1, unchanged: 0 });
  // Fields that came before or after it while it waited are enough, too.
  const other = { at: 0, record: 2, state: 3 };
  for (const waiting of [
    [other, { ...deletion, at: 1 }, { ...update, at: 2 }],
    [other, { ...update, at: 1 }, { ...deletion, at: 2 }],
  ]) {
    expect(simulate(waiting, settingsOf({ burst: 1 })).requests).toHaveLength(2);
  }
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

test("steady pacing lets half a burst pass, then goes at the hour's rate", () => {
  const changes = Array.from({ length: 15 }, (_, record) => ({ at: 0, record }));
  const { requests } = simulate(changes, settingsOf({ steady: true }));
  expect(requests.filter((at) => at < 3600)).toHaveLength(10);
  expect(requests.at(-1)).toBe(5 * 3600);
});

test("the exhausted quota counts only while changes wait", () => {
  const changes = [0, 1000].map((at) => ({ at, record: at }));
  expect(simulate(changes, ONE).exhaustedMs).toBe(HOUR_MS + 80 - 1000);
  expect(simulate([{ at: 0, record: 1 }], ONE).exhaustedMs).toBe(0);
  // The second one is taken back after a minute: nothing waits any more.
  const takenBack = [1, 2, 1].map((state, n) => ({ at: 30_000 * n, record: 1, state }));
  expect(simulate(takenBack, ONE).exhaustedMs).toBe(30_000);
  // What is left of the hour is for live changes.
  const bulk = [1, 2].map((record) => ({ at: 0, record, lane: "bulk" as const }));
  const reserved = settingsOf({ perHour: 2, liveReserve: 1 });
  expect(simulate(bulk, reserved).exhaustedMs).toBeGreaterThan(HOUR_MS - 1000);
});

test("a change of the year 1 takes no longer than others", () => {
  const changes = ["0001-01-01", "2026-11-25"].map((day, record) => ({
    at: Date.parse(day),
    record,
  }));
  expect(simulate(changes, settingsOf()).counts.sent).toBe(2);
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
        state: fc.nat(2),
        bare: fc.boolean(),
      }),
      { minLength: 1, maxLength: 150 },
    )
    .map((drawn) =>
      drawn
        .map((change) => ({ ...change, state: change.record * 10 + change.state }))
        .toSorted((a, b) => a.at - b.at),
    );

const loads = fc.record({
  settings: fc
    .record({
      perHour: fc.integer({ min: 3, max: 40 }),
      hourMs: fc.constantFrom(60_000, HOUR_MS),
      burst: fc.integer({ min: 1, max: 10 }),
      burstMs: fc.constantFrom(500, 5000),
      liveReserve: fc.integer({ min: 0, max: 2 }),
      steady: fc.boolean(),
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

test("whatever comes: no window is exceeded, and every change has one end", () => {
  fc.assert(
    fc.property(loads, ({ changes, settings }) => {
      const { requests, settledAt, counts } = simulate(changes, settings);
      expect(mostWithin(requests, settings.hourMs)).toBeLessThanOrEqual(settings.perHour);
      expect(mostWithin(requests, settings.burstMs)).toBeLessThanOrEqual(settings.burst);
      expect(Math.min(...agesIn(changes, settledAt))).toBeGreaterThanOrEqual(0);
      expect(counts.sent + counts.coalesced + counts.unchanged).toBe(changes.length);
      expect(counts.sent).toBeLessThanOrEqual(requests.length);
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

test("a state that is taken back needs no request, so the bound asks for none", () => {
  const of = (state: number, at: (record: number) => number): Change[] =>
    Array.from({ length: 100 }, (_, record) => ({
      at: at(record),
      record,
      state: record * 10 + state,
    }));
  const hour = of(1, (record) => record * 30_000);
  const changes = [...hour, ...of(2, () => HOUR_MS), ...of(1, () => HOUR_MS + 1000)];
  expect(simulate(changes, settingsOf()).requests.length).toBeLessThan(150);
  expect(lowerBound(changes, settingsOf()).max).toBeLessThanOrEqual(1000);
});
