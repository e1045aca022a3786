/** Whether the service takes much longer for its replies than it usually does. Pure. */
import { durationsIn } from "../ops/duration-buckets.ts";
import { sumOf, type Slice } from "../state/outcomes.ts";
import { worstStretch } from "./stretch.ts";

/** A reply is slow when it takes this many times the usual duration, and this much longer, ms. */
const FACTOR = 3;
const LONGER_MS = 500;

/** From fewer replies than this nothing follows about the present, or about what is usual. */
const MIN_RECENT = 5;
const MIN_USUAL = 20;

export type Slowness = NonNullable<ReturnType<typeof slownessIn>>;

/**
 * A stretch of time up to now in which most replies were slow, with medians. It has ended once the newest replies are quick, or when none came for a while.
 * @param minutes slices of the last hour; @param hours slices of the last day; both oldest first.
 * @param from a newest reply before it tells nothing of the present, ms
 */
export function slownessIn(minutes: readonly Slice[], hours: readonly Slice[], from = 0) {
  const day = sumOf(hours);
  const usualMs = usualBefore(minutes, day);
  if (usualMs === undefined) return undefined;
  const limitMs = slowFrom(usualMs);
  const newest = minutes.findLast(({ counts }) => countIn(counts) > 0);
  if (newest === undefined || newest.since < from) return undefined;
  if (countIn(newest.counts, limitMs) === 0) return undefined;
  const tallies = minutes.map(({ since, counts }) => ({
    since,
    bad: countIn(counts, limitMs),
    all: countIn(counts),
  }));
  const stretch = worstStretch(tallies, 0.5);
  if (stretch === undefined) return undefined;
  const slow = sumOf(minutes.filter(({ since }) => since >= stretch.since));
  return { since: stretch.since, recentMs: medianOf(slow) ?? limitMs, usualMs };
}

/** The usual duration, if the newest replies are slow: that of all replies before a slow stretch. */
function usualBefore(
  minutes: readonly Slice[],
  day: Readonly<Record<string, number>>,
): number | undefined {
  let recent: Record<string, number> = {};
  let newestMs: number | undefined;
  for (const slice of minutes.toReversed()) {
    recent = sumOf([slice, { since: 0, counts: recent }]);
    if (countIn(recent) < MIN_RECENT) continue;
    newestMs ??= medianOf(recent);
    const before = withoutThese(day, recent);
    const usualMs = countIn(before) < MIN_USUAL ? undefined : medianOf(before);
    if (newestMs === undefined || usualMs === undefined) continue;
    if (newestMs >= slowFrom(usualMs)) return usualMs;
  }
  return undefined;
}

const slowFrom = (usualMs: number): number => Math.max(FACTOR * usualMs, usualMs + LONGER_MS);

/** How many replies took at least this long. */
const countIn = (counts: Readonly<Record<string, number>>, fromMs = 0): number =>
  durationsIn(counts).reduce((sum, { ms, count }) => sum + (ms >= fromMs ? count : 0), 0);

/** The median of the durations that were counted, ms. */
export function medianOf(counts: Readonly<Record<string, number>>): number | undefined {
  const half = countIn(counts) / 2;
  let passed = 0;
  return durationsIn(counts).find(({ count }) => (passed += count) >= half)?.ms;
}

const withoutThese = (
  counts: Readonly<Record<string, number>>,
  these: Readonly<Record<string, number>>,
): Record<string, number> =>
  Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [name, Math.max(0, count - (these[name] ?? 0))]),
  );
