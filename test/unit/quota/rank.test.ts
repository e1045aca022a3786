/** Usual gaps and ranks: which record is served first, and what a lead is made of. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  firstChangesOf,
  firstChangesWords,
  gapOf,
  learn,
  slotOf,
  TICKS_PER_HOUR,
} from "../../../src/quota/gaps.ts";
import { rankAgain, rankOf } from "../../../src/quota/rank.ts";

const HOUR_MS = 3_600_000;
const NOW = 1_764_000_000_000;
const TICK = NOW / (HOUR_MS / TICKS_PER_HOUR);
const NONE = firstChangesOf([], TICK);

/** The word of one record that changed at these ticks. */
function wordAfter(ticks: readonly number[]): number {
  let word = 0;
  for (const tick of ticks) word = learn(word, NONE, TICK + tick).word;
  return word;
}

/** Its usual gap, in ticks, where new records are believed to stay unchanged for an hour. */
const gapAfter = (...ticks: number[]) => gapOf(wordAfter(ticks), NONE);

test("A record's usual gap is the geometric mean of its gaps, the newest with a weight of half", () => {
  expect(gapAfter(0)).toBe(TICKS_PER_HOUR);
  expect(gapAfter(0, 100)).toBe(100);
  expect(gapAfter(0, 100, 500)).toBe(200);
  expect(gapAfter(0, 100, 100)).toBe(10);
});

test("After an hour without a change a record is as good as new", () => {
  expect(gapAfter(0, 100, 100 + TICKS_PER_HOUR)).toBe(Math.floor(Math.sqrt(100 * TICKS_PER_HOUR)));
  expect(wordAfter([0, 100, 101 + TICKS_PER_HOUR])).toBe(wordAfter([101 + TICKS_PER_HOUR]));
});

test("A clock that steps back counts as no time", () => {
  expect(gapAfter(0, 100, -500)).toBe(10);
  const counted = [256, 0, 0, TICK % 2 ** 32];
  expect(firstChangesOf(counted, TICK - 500)).toEqual({ ...NONE, seen: 1, at: TICK - 500 });
});

test("A word fits into 32 bits, whatever it learns", () => {
  const ticks = fc.integer({ min: 0, max: 2 ** 40 });
  const word = fc.integer({ min: 0, max: 2 ** 32 - 1 });
  const isWord = (number: number) => Number.isInteger(number) && number >= 0 && number < 2 ** 32;
  fc.assert(
    fc.property(word, fc.tuple(word, word, word, word), ticks, (before, counts, tick) => {
      const learnt = learn(before, firstChangesOf(counts, tick), tick);
      const gap = gapOf(learnt.word, learnt.first);
      return (
        isWord(learnt.word) &&
        firstChangesWords(learnt.first).every(isWord) &&
        gap > 0 &&
        gap <= TICKS_PER_HOUR
      );
    }),
  );
});

test("The records of an hour at its limit rarely share a slot", () => {
  const slots = Array.from({ length: 1000 }, (_, n) => slotOf(`BR-${String(n).padStart(8, "0")}`));
  expect(new Set(slots).size).toBeGreaterThan(900);
});

test("A new record is believed to stay unchanged for an hour, until new records have changed again", () => {
  const { word: once } = learn(0, NONE, TICK);
  expect(gapOf(once, NONE)).toBe(TICKS_PER_HOUR);
  const { first } = learn(once, { ...NONE, seen: 1 }, TICK + 60);
  expect(first).toEqual({ seen: 1, again: 1, gaps: 60, at: TICK });
  const hundred = { seen: 100, again: 100, gaps: 100 * 60, at: TICK };
  // 100 of half a minute, and the two of an hour that are supposed.
  expect(gapOf(once, hundred)).toBeCloseTo((100 * 60 + 2 * TICKS_PER_HOUR) / 102, 6);
  // A hundred more were watched for two and a half minutes in vain.
  const watched = 100 * 300 + 100 * 60;
  const more = { ...hundred, seen: 200 };
  expect(gapOf(once, more)).toBeCloseTo((watched + 2 * TICKS_PER_HOUR) / 102, 6);
});

test("What records did after their first change counts half after half an hour", () => {
  const words = firstChangesWords({ seen: 100, again: 50, gaps: 3000, at: TICK });
  const later = TICK + TICKS_PER_HOUR / 2;
  expect(firstChangesOf(words, later)).toEqual({ seen: 50, again: 25, gaps: 1500, at: later });
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
