/**
 * How long a record usually goes without a change, learnt from its changes. A request for a record
 * that will not change again soon saves nothing by waiting.
 *
 * All of it is one table of a fixed size, whatever the number of records: a word of 32 bits for each
 * slot, and a record's slot is a checksum of its crmCode. Two records that share a slot look like one
 * that changes more often: at the rates that matter, few do. The table names no record. After the
 * slots come the words of FirstChanges.
 *
 * Pure: lua/gaps.lua is the same in Redis, and `src/simulate/` runs this code. Times are in ticks, of
 * which an hour of the quota has TICKS_PER_HOUR.
 */
import { crc32 } from "node:zlib";

export const TICKS_PER_HOUR = 7200;

/** With these words the table fits into 32 KiB. */
const SLOTS = 8000;

/** All words of the table. */
export const WORDS = SLOTS + 4;

/** The words of FirstChanges: seen, again, gaps, at. */
export const FIRST_CHANGES = [SLOTS, SLOTS + 1, SLOTS + 2, SLOTS + 3] as const;

/** A word is the tick of the last change, modulo LASTS, and the usual gap; 0: no change yet. */
const LASTS = 2 ** 19;
const GAPS = 2 ** 13;

/** The gap of a record that has changed once. */
const ONCE = GAPS - 1;

/** The slot of a record. */
export const slotOf = (crmCode: string): number => crc32(crmCode) % SLOTS;

/** What records did after their first change; the counts fade. */
export interface FirstChanges {
  /** Records that changed for the first time, and those that changed again while watched. */
  readonly seen: number;
  readonly again: number;
  /** Sum of the gaps between these two changes. */
  readonly gaps: number;
  /** When this was counted. */
  readonly at: number;
}

/** For how long a record is watched, and how fast counts fade. */
const WATCHED = TICKS_PER_HOUR / 24;
const FADING = TICKS_PER_HOUR / 2;

/** Until more is known, as if this many records had changed again after an hour. */
const SUPPOSED = 2;

/** Counts are kept as whole numbers of such parts: as they fade, they are fractions. */
const PARTS = 256;

const MAX_WORD = 2 ** 32 - 1;

/** What the words of FirstChanges say now. */
export function firstChangesOf(words: readonly number[], now: number): FirstChanges {
  const [seen = 0, again = 0, gaps = 0, at = 0] = words;
  const part = FADING / (FADING + passed(now, at, MAX_WORD + 1));
  const faded = (count: number) => Math.floor(count * part) / PARTS;
  return { seen: faded(seen), again: faded(again), gaps: faded(gaps), at: now };
}

export const firstChangesWords = ({ seen, again, gaps, at }: FirstChanges): number[] => [
  ...[seen, again, gaps].map((count) => Math.min(MAX_WORD, count * PARTS)),
  at % (MAX_WORD + 1),
];

/** Learns from one change. @param word of the record's slot */
export function learn(
  word: number,
  first: FirstChanges,
  now: number,
): { readonly word: number; readonly first: FirstChanges } {
  const wordOf = (gap: number) => (now % LASTS) * GAPS + gap;
  const gap = word % GAPS;
  const since = passed(now, Math.floor(word / GAPS), LASTS);
  // After an hour without a change a record is as good as new.
  if (gap === 0 || since > TICKS_PER_HOUR) {
    return { word: wordOf(ONCE), first: { ...first, seen: first.seen + 1 } };
  }
  const counted = Math.max(1, since);
  if (gap !== ONCE) return { word: wordOf(Math.floor(Math.sqrt(gap * counted))), first };
  if (since > WATCHED) return { word: wordOf(counted), first };
  const { again, gaps } = first;
  return { word: wordOf(counted), first: { ...first, again: again + 1, gaps: gaps + counted } };
}

/** The usual gap of a record: its own, or what records do that have changed once. At most an hour. */
export function gapOf(word: number, { seen, again, gaps }: FirstChanges): number {
  const gap = word % GAPS;
  if (gap !== ONCE) return Math.min(TICKS_PER_HOUR, gap);
  const watched = Math.max(0, seen - again) * WATCHED + gaps;
  return Math.min(TICKS_PER_HOUR, (watched + SUPPOSED * TICKS_PER_HOUR) / (again + SUPPOSED));
}

/** Ticks since then. Clocks may step back: that counts as no time. */
function passed(now: number, then: number, range: number): number {
  const ticks = (((now - then) % range) + range) % range;
  return ticks > range / 2 ? 0 : ticks;
}
