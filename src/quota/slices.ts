/**
 * How demand is counted, and which record is served first while requests are scarce. Intake and
 * the pacer must agree on it. All times scale with the quota's hour; docs/adr/0003 explains the
 * figures.
 */

/** Changed records are counted per slice of the hour. */
const SLICES_PER_HOUR = 120;

/** Whole slices that pacing considers. */
export const SLICES_KEPT = 9;

/** Each further change of a waiting record counts as this part of an hour of waiting. */
const PRIORITY_BONUS_PARTS = 240;

export function sliceMs(hourMs: number): number {
  return hourMs / SLICES_PER_HOUR;
}

export function priorityBonusMs(hourMs: number): number {
  return hourMs / PRIORITY_BONUS_PARTS;
}
