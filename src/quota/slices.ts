/**
 * How the flow of changes is counted. Intake and the pacer must agree on it. All times scale with the
 * quota's hour; docs/adr/0003 explains the figures. lua/slices.lua has room for sixteen slices.
 */

/** Changes are counted per slice of the hour. */
const SLICES_PER_HOUR = 120;

/** Whole slices that pacing considers. */
export const SLICES_KEPT = 9;

export function sliceMs(hourMs: number): number {
  return hourMs / SLICES_PER_HOUR;
}
