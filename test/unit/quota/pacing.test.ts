import * as fc from "fast-check";
import { expect, test } from "vitest";
import { LOADS, zipfHour } from "../../../bench/changes.ts";
import { figuresOf, STRATEGIES } from "../../../bench/pacing.ts";
import {
  drainsInMs,
  paceOf,
  HOUR_PARTS,
  NEW,
  takeTurn,
  type PacingView,
} from "../../../src/core/quota/pacing.ts";
import { flowOf, SLICES_KEPT, sliceMs } from "../../../src/core/sync/rank.ts";

const HOUR_MS = 3_600_000;
const EVEN_MS = 3600;

/** A quiet hour with nothing spent; `demand` is per slice of 30 s. */
const viewOf = (given: Partial<PacingView> = {}): PacingView => ({
  limit: 1000,
  remaining: 1000,
  returns: Array.from({ length: HOUR_PARTS }, () => 0),
  demand: Array.from({ length: SLICES_KEPT }, () => 0),
  waiting: 0,
  hourMs: HOUR_MS,
  liveReserve: 100,
  ...given,
});
const flow = (perSlice: number) => Array.from({ length: SLICES_KEPT }, () => perSlice);

const AT_ONCE = { intervalMs: 0, early: 0 };

test("Without a flow everything is sent at once, however much waits", () => {
  expect(paceOf(viewOf({ waiting: 5000 }), "live")).toEqual(AT_ONCE);
});

test("A flow that fits into the hour is sent at once", () => {
  expect(paceOf(viewOf({ demand: flow(7) }), "live")).toEqual(AT_ONCE);
});

test("A flow that does not fit is spread over the hour, and a turn may be taken early by a part of the lead", () => {
  const pace = paceOf(viewOf({ demand: flow(15), waiting: 200 }), "live");
  expect(pace?.intervalMs).toBeCloseTo(EVEN_MS, 0);
  expect(pace?.early).toBe(3 / 4);
});

test("A turn comes earlier for a larger lead, never later, and never before its record is due", () => {
  const pace = { intervalMs: 3600, early: 2 / 3 };
  const rules = { pacing: "burst", perHour: 1000, hourMs: HOUR_MS, burst: 20 } as const;
  const waits = (turn: number, lowestRank: number | undefined, early = pace.early) =>
    takeTurn({ now: 0, state: { ...NEW, turn }, lowestRank }, { ...pace, early }, rules);
  expect(waits(100_000, undefined)).toBe(103_600);
  expect(waits(100_000, 200_000)).toBe(103_600);
  // 36 s after its rank, a lead of 36 s takes the turn early by 24 s.
  expect(waits(96_400, 40_000)).toBeCloseTo(76_000, 6);
  expect(waits(100_000, 0, 0)).toBe(103_600);
});

test("While few records wait, a few requests stay unspent", () => {
  const pace = paceOf(viewOf({ demand: flow(15), waiting: 30 }), "live");
  expect(pace?.intervalMs).toBeCloseTo(EVEN_MS / 0.97, 0);
});

test("Slots that return in the first part of the hour replace those that stay unspent", () => {
  const partMs = HOUR_MS / HOUR_PARTS;
  /** Requests within the ten parts before most slots return; thirty slots are free. */
  const spent = (soon: number) => {
    const returns = [soon, ...Array.from({ length: 9 }, () => 0), 970 - soon];
    const view = viewOf({ remaining: 30, demand: flow(15), waiting: 30, returns });
    return (10 * partMs) / (paceOf(view, "live")?.intervalMs ?? 0);
  };
  expect(spent(0)).toBeCloseTo(1, 6);
  expect(spent(10)).toBeCloseTo(20, 6);
  expect(spent(30)).toBeCloseTo(60, 6);
});

test("Slots that return soon may be spent soon", () => {
  const returns = Array.from({ length: HOUR_PARTS }, (_, part) => (part < 3 ? 300 : 0));
  const soon = viewOf({ remaining: 100, demand: flow(15), waiting: 200, returns });
  const late = { ...soon, returns: returns.toReversed() };
  expect(paceOf(soon, "live")?.intervalMs).toBeLessThan(paceOf(late, "live")?.intervalMs ?? 0);
});

test("In an empty hour live changes wait for a lease, and bulk work leaves the reserve alone", () => {
  expect(paceOf(viewOf({ remaining: 0 }), "live")).toEqual(AT_ONCE);
  expect(paceOf(viewOf({ remaining: 100 }), "bulk")).toBeUndefined();
  expect(paceOf(viewOf({ remaining: 101 }), "bulk")).toEqual(AT_ONCE);
});

test("Bulk work takes the surplus over the flow at once, and no turn early", () => {
  expect(paceOf(viewOf({ demand: flow(7) }), "bulk")).toEqual(AT_ONCE);
  const scarce = paceOf(viewOf({ demand: flow(8), waiting: 200 }), "bulk");
  expect(scarce?.intervalMs).toBeCloseTo(4000, 0);
  expect(scarce?.early).toBe(0);
});

test("A storm is no flow; changes in two slices in a row are", () => {
  const counted = (demand: number[]) =>
    flowOf([...demand, ...flow(0)].slice(0, SLICES_KEPT), HOUR_MS) * sliceMs(HOUR_MS);
  expect(counted([500])).toBe(0);
  expect(counted([400, 0, 400])).toBe(0);
  expect(counted([12, 10])).toBeCloseTo(11, 6);
  expect(counted([12, 10, 14])).toBeCloseTo(12, 6);
  expect(counted([9, 10, 400, 11, 10])).toBeCloseTo(36, 6);
  expect(counted([0, 10, 10, 10, 10])).toBe(0);
  expect(counted([1, 10, 10, 10, 10])).toBeCloseTo(4, 6);
});

test("For any view the pace is usable and never overdraws an hour", () => {
  const views = fc
    .record({
      remaining: fc.integer({ min: 0, max: 1000 }),
      demand: fc.array(fc.nat(500), { minLength: SLICES_KEPT, maxLength: SLICES_KEPT }),
      waiting: fc.nat(5000),
    })
    .chain((drawn) =>
      fc
        .array(fc.nat(HOUR_PARTS - 1), {
          minLength: 1000 - drawn.remaining,
          maxLength: 1000 - drawn.remaining,
        })
        .map((parts) => {
          const returns = Array.from({ length: HOUR_PARTS }, () => 0);
          for (const part of parts) returns[part] = (returns[part] ?? 0) + 1;
          return viewOf({ ...drawn, returns });
        }),
    );
  fc.assert(
    fc.property(views, fc.constantFrom("live" as const, "bulk" as const), (view, lane) => {
      const pace = paceOf(view, lane);
      if (pace === undefined) return lane === "bulk" && view.remaining <= view.liveReserve;
      const { early, intervalMs } = pace;
      return early >= 0 && intervalMs >= 0 && HOUR_MS / Math.max(intervalMs, EVEN_MS) <= 1000.5;
    }),
    { numRuns: 200 },
  );
});

test("The forecast considers bursts, returning slots, and whole hours", () => {
  const limits = { burst: 20, burstMs: 5000 };
  expect(drainsInMs({ live: 0, bulk: 0 }, viewOf(), limits)).toBe(0);
  expect(drainsInMs({ live: 20, bulk: 0 }, viewOf(), limits)).toBe(0);
  expect(drainsInMs({ live: 500, bulk: 0 }, viewOf(), limits)).toBe(120_000);
  const spent = viewOf({ remaining: 0, returns: [1000, ...flow(0)] });
  expect(drainsInMs({ live: 500, bulk: 0 }, spent, limits)).toBe(120_000);
  expect(drainsInMs({ live: 2000, bulk: 0 }, viewOf({ remaining: 0 }), limits)).toBe(3 * HOUR_MS);
  // What was sent together returns together, in each hour.
  const burst = Array.from({ length: HOUR_PARTS }, (_, part) =>
    part === HOUR_PARTS - 1 ? 1000 : 0,
  );
  const after = (live: number) =>
    drainsInMs({ live, bulk: 0 }, viewOf({ remaining: 0, returns: burst }), limits) / HOUR_MS;
  expect(after(1000)).toBe(1);
  expect(after(1001)).toBeCloseTo(1 + (HOUR_PARTS - 1) / HOUR_PARTS, 3);
  expect(after(2000)).toBe(2);
});

test("The forecast leaves the live reserve to live changes", () => {
  const limits = { burst: 20, burstMs: 5000 };
  const view = viewOf({ liveReserve: 100 });
  expect(drainsInMs({ live: 0, bulk: 900 }, view, limits)).toBe(220_000);
  expect(drainsInMs({ live: 100, bulk: 800 }, view, limits)).toBe(220_000);
  // The reserve of 100 is never spent on the last 50.
  expect(drainsInMs({ live: 0, bulk: 950 }, view, limits)).toBeGreaterThanOrEqual(HOUR_MS);
  expect(drainsInMs({ live: 950, bulk: 0 }, view, limits)).toBe(235_000);
});

test("The rule meets its limits for seeds that it was not tuned on", () => {
  const rule = STRATEGIES.at(-1);
  if (rule === undefined) throw new Error("no rule");
  for (const seed of [301, 302, 303]) {
    for (const arrivals of ["evenly", "at random"] as const) {
      const figures = figuresOf(zipfHour(seed, arrivals), rule);
      expect(figures.requests).toBeLessThanOrEqual(1030);
      expect(figures.p50).toBeLessThan(80_000);
      expect(figures.p99).toBeLessThan(205_000);
      expect(figures.settledAt).toBeLessThan(1.05 * HOUR_MS);
    }
  }
  const atOnce = LOADS.find(({ name }) => name === "500 new at once")?.changes(1) ?? [];
  expect(figuresOf(atOnce, rule).settledAt).toBeLessThan(1.03 * 120_000);
});
