/** Usual gaps and ranks: which record is served first, and what a lead is made of. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { Pace } from "../../../src/core/sync/ledger-row.ts";
import {
  gapOf,
  learn,
  NO_FIRST_CHANGES,
  rankAgain,
  rankOf,
  type FirstChanges,
} from "../../../src/core/sync/rank.ts";

const HOUR_MS = 3_600_000;
const NOW = 1_764_000_000_000;
const SECOND_MS = 1000;
const NONE: FirstChanges = { ...NO_FIRST_CHANGES, at: NOW };

/** What is known of one record that changed at these seconds. */
function paceAfter(seconds: readonly number[]): Pace {
  let pace: Pace | undefined;
  for (const at of seconds) pace = learn(pace, NONE, NOW + at * SECOND_MS, HOUR_MS).pace;
  return pace as Pace;
}

/** Its usual gap, s, where new records are believed to stay unchanged for an hour. */
const gapAfter = (...seconds: number[]) => gapOf(paceAfter(seconds), NONE, HOUR_MS) / SECOND_MS;

test("A record's usual gap is the geometric mean of its gaps, the newest with a weight of half", () => {
  expect(gapAfter(0)).toBe(3600);
  expect(gapAfter(0, 100)).toBe(100);
  expect(gapAfter(0, 100, 500)).toBe(200);
  expect(gapAfter(0, 50, 50)).toBe(5);
});

test("After an hour without a change a record is as good as new", () => {
  expect(gapAfter(0, 100, 3700)).toBe(600);
  expect(paceAfter([0, 100, 3701])).toEqual(paceAfter([3701]));
});

test("A clock that steps back counts as no time", () => {
  expect(gapAfter(0, 50, -500)).toBe(5);
});

test("A new record is believed to stay unchanged for an hour, until new records have changed again", () => {
  const { pace: once } = learn(undefined, NONE, NOW, HOUR_MS);
  expect(gapOf(once, NONE, HOUR_MS)).toBe(HOUR_MS);
  const { first } = learn(once, { ...NONE, seen: 1, at: NOW + 30_000 }, NOW + 30_000, HOUR_MS);
  expect(first).toEqual({ seen: 1, again: 1, gapsMs: 30_000, at: NOW + 30_000 });
  const hundred = { seen: 100, again: 100, gapsMs: 100 * 30_000, at: NOW };
  // 100 of half a minute, and the two of an hour that are supposed.
  expect(gapOf(once, hundred, HOUR_MS)).toBeCloseTo((100 * 30_000 + 2 * HOUR_MS) / 102, 3);
  // A hundred more were watched for two and a half minutes in vain.
  const watched = 100 * 150_000 + 100 * 30_000;
  expect(gapOf(once, { ...hundred, seen: 200 }, HOUR_MS)).toBeCloseTo(
    (watched + 2 * HOUR_MS) / 102,
    3,
  );
});

test("What records did after their first change counts half after half an hour", () => {
  const counted = { seen: 100, again: 50, gapsMs: 1_500_000, at: NOW - HOUR_MS / 2 };
  const { first } = learn(undefined, counted, NOW, HOUR_MS);
  expect(first).toEqual({ seen: 51, again: 25, gapsMs: 750_000, at: NOW });
});

const gaps = fc.integer({ min: 1, max: HOUR_MS });
const leads = fc.integer({ min: 0, max: 10 * HOUR_MS });

test("Of two records that begin to wait at once, the one that changes more rarely goes first", () => {
  fc.assert(
    fc.property(gaps, gaps, leads, (one, other, lead) => {
      const [hot, rare] = one < other ? [one, other] : [other, one];
      return rankOf(NOW, rare, lead) <= rankOf(NOW, hot, lead);
    }),
  );
});

test("Of two records with equal gaps, the one that has waited longer goes first", () => {
  fc.assert(
    fc.property(gaps, leads, fc.nat(HOUR_MS), (gap, lead, ms) => {
      return rankOf(NOW - ms, gap, lead) <= rankOf(NOW, gap, lead);
    }),
  );
});

test("A gap counts for at most twelve minutes of an hour, so no record waits for ever", () => {
  fc.assert(
    fc.property(gaps, leads, (gap, lead) => {
      const counts = NOW - rankOf(NOW, gap, lead);
      return counts >= 0 && counts <= 0.2 * HOUR_MS + 1;
    }),
  );
});

test("A further change moves a record by 3 % of the largest lead, and by at most 40 s of an hour", () => {
  expect(rankAgain(NOW, 600_000, HOUR_MS)).toBe(NOW - 18_000);
  expect(rankAgain(NOW, 2 * HOUR_MS, HOUR_MS)).toBe(NOW - 40_000);
});

test("A further change only moves a record forward, the farther the more others have waited", () => {
  fc.assert(
    fc.property(leads, fc.nat(HOUR_MS), (lead, more) => {
      const rank = NOW - 1000;
      const again = rankAgain(rank, lead, HOUR_MS);
      return again <= rank && rankAgain(rank, lead + more, HOUR_MS) <= again;
    }),
  );
});
