/**
 * How demand is counted and who is served first while requests are scarce. Whoever stages changes
 * and whoever paces requests must agree on it. All of it scales with the length of the quota's
 * hour; docs/quota.md tells where the figures come from.
 */

/** Changed records are counted apart for each slice of the hour. */
const SLICES_PER_HOUR = 120;

/** Whole slices that pacing looks back on. */
export const SLICES_KEPT = 9;

/** Further changes of a waiting record count as if it had waited this part of the hour longer. */
const TURN_BONUS_PARTS = 240;

export function sliceMs(hourMs: number): number {
  return hourMs / SLICES_PER_HOUR;
}

export function priorityBonusMs(hourMs: number): number {
  return hourMs / TURN_BONUS_PARTS;
}
