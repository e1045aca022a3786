/**
 * The order in which permits are spent: the lowest rank first. A record's lead (the time now minus its
 * rank) is also what pacing asks for: the more turns have been taken early, the larger a lead must be.
 * Pure: lua/count-changes.lua is the same in Redis. Times in ms.
 */

/** This part of a record's usual gap counts as waiting: holding back a rare change saves nothing. */
const GAP_COUNTS = 0.2;

/**
 * Each further change adds this part of the largest lead: one request settles all of them. It adds at
 * most this part of the hour, or else hot records would keep passing those that have waited for long.
 */
const CHANGE_ADDS = 0.03;
const ADDS_AT_MOST = 1 / 90;

/** The largest lead of the records that wait; 0 when none waits. */
export const leadOf = (now: number, lowestRank: number | undefined): number =>
  Math.max(0, now - (lowestRank ?? now));

/** The rank of a record that begins to wait. @param gap its usual gap (gaps.ts) */
export const rankOf = (now: number, gap: number, lead: number): number =>
  Math.floor(now - gapCounts(gap, lead));

/** The rank of a record that waits and has changed again: it only ever moves forward. */
export const rankAgain = (rank: number, lead: number, hourMs: number): number =>
  Math.floor(rank - Math.min(CHANGE_ADDS * lead, ADDS_AT_MOST * hourMs));

/** How much of a usual gap counts: less when others have waited for longer, since gaps are estimates. */
function gapCounts(gap: number, lead: number): number {
  const counts = GAP_COUNTS * gap;
  const part = Math.min(1, counts / Math.max(1, lead));
  return counts * part * Math.sqrt(part);
}
