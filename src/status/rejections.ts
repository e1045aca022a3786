/** Whether more changes are rejected than usual: how many, since when, and for which field. Pure. */
import { sumOf, type Slice } from "../state/outcomes.ts";
import { DEAD_REASONS, REJECTED_BY_SYNC, type DeadReason } from "../sync/dead-letter.ts";
import { worstStretch } from "./stretch.ts";

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

/** Tally of the changes that were checked since then; if there are none, of the last slice that has some. */
function newestOf(role: CheckingRole, since: number, slices: readonly Slice[]) {
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
