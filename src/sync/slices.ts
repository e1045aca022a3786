/**
 * How the flow of changes is counted. Intake and the pacer must agree on it. All times scale with the
 * quota's hour; docs/adr/0026 explains the figures. Pure.
 */

/** Changes are counted per slice of the hour. */
const SLICES_PER_HOUR = 120;

/** Whole slices that pacing considers. */
export const SLICES_KEPT = 9;

export const sliceMs = (hourMs: number): number => hourMs / SLICES_PER_HOUR;

/** The number of the slice that a time is in. */
export const sliceOf = (now: number, hourMs: number): number => Math.floor(now / sliceMs(hourMs));

/** For how long the count of a slice is needed, ms. */
export const sliceLastsMs = (hourMs: number): number =>
  Math.ceil((SLICES_KEPT + 2) * sliceMs(hourMs));
