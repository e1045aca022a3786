/** Whether the service takes much longer for its replies than it usually does. Pure. */
import { durationsIn } from "../../base/duration-buckets.ts";
import { sumOf, type Slice } from "../../core/state/outcomes.ts";
import { DEAD_REASONS, REJECTED_BY_SYNC, type DeadReason } from "../../core/sync/dead-letter.ts";

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
  // Half of the newest replies are quick.
  if (2 * countIn(newest.counts, limitMs) <= countIn(newest.counts)) return undefined;
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

/** Finds since when something goes wrong more often than it may. Pure. */

/** How many of all were bad within one slice of time. */
interface Tally {
  /** When it began, ms. */
  readonly since: number;
  readonly bad: number;
  readonly all: number;
}

/**
 * The stretch up to now in which there are most bad ones beyond their tolerated share: what was
 * good before does not hide it, and a few bad ones before do not begin it too early.
 * @param tallies oldest first.
 */
function worstStretch(tallies: readonly Tally[], share: number): Tally | undefined {
  let [bad, all, most] = [0, 0, 0];
  let worst: Tally | undefined;
  for (const tally of tallies.toReversed()) {
    bad += tally.bad;
    all += tally.all;
    const excess = bad - share * all;
    if (excess <= most) continue;
    most = excess;
    worst = { since: tally.since, bad, all };
  }
  return worst;
}

/** Fewer rejected changes, or a smaller share of all, say nothing. The alert has the same limits. */
const MIN_REJECTED = 10;
const MIN_SHARE = 0.2;

/**
 * A stretch is over when the share in the last such part of an hour is small again. If nothing was checked
 * in that part, the newest changes before it decide: silence must neither end a stretch nor begin one.
 */
const RECENT_HOURS = 1 / 12;

/** The roles that check changes: intake by mapping and rules, sync by the service's replies. */
export const CHECKING_ROLES = ["intake", "sync"] as const;
export type CheckingRole = (typeof CHECKING_ROLES)[number];

export type Rejections = ReturnType<typeof rejectionsIn>[number];

/**
 * @param slices of the last hour, oldest first.
 * @returns the stretch of time up to now in which a role rejected too many changes, and what most were rejected for.
 */
export function rejectionsIn(slices: readonly Slice[], now: number, hourMs: number) {
  return CHECKING_ROLES.flatMap((role) => {
    const stretch = worstStretch(
      slices.map(({ since, counts }) => ({ since, ...tallyOf(role, counts) })),
      MIN_SHARE,
    );
    if (stretch === undefined || stretch.bad < MIN_REJECTED) return [];
    const { since, bad, all } = stretch;
    const newest = newestOf(role, now - hourMs * RECENT_HOURS, slices);
    if (newest.bad <= MIN_SHARE * newest.all) return [];
    const top = topOf(role, sumOf(from(since, slices)));
    return top === undefined ? [] : [{ role, since, rejected: bad, checked: all, top }];
  });
}

const from = (since: number, slices: readonly Slice[]): Slice[] =>
  slices.filter((slice) => slice.since >= since);

/** Fewer changes than this say nothing by themselves of the present. */
const ENOUGH = 5;

/** Tally of the last slice, if it tells enough; of what was checked since then; or of the last slice that has some. */
function newestOf(role: CheckingRole, since: number, slices: readonly Slice[]) {
  const last = tallyOf(role, slices.at(-1)?.counts ?? {});
  if (last.all >= ENOUGH) return last;
  const recent = tallyOf(role, sumOf(from(since, slices)));
  if (recent.all > 0) return recent;
  const tallies = slices.map(({ counts }) => tallyOf(role, counts));
  return tallies.findLast(({ all }) => all > 0) ?? recent;
}

function tallyOf(role: CheckingRole, counts: Readonly<Record<string, number>>) {
  const bad = counts[`checked ${role} rejected`] ?? 0;
  return { bad, all: bad + (counts[`checked ${role} passed`] ?? 0) };
}

/** Its field is `none` when the reason is about no field. */
function topOf(role: CheckingRole, counts: Readonly<Record<string, number>>) {
  let top: { reason: DeadReason; field: string; count: number } | undefined;
  for (const [name, count] of Object.entries(counts)) {
    const [, reason, field = "none"] = /^rejected (\w+) (\S+)$/.exec(name) ?? [];
    if (!isReason(reason) || REJECTED_BY_SYNC.has(reason) !== (role === "sync")) continue;
    if (count > (top?.count ?? 0)) top = { reason, field, count };
  }
  return top;
}

const isReason = (text: string | undefined): text is DeadReason =>
  DEAD_REASONS.some((reason) => reason === text);
