import type { ClockAhead } from "../state/sources.ts";

/** A clock that was wrong counts as wrong for this long, ms. */
const FORGOTTEN_MS = 3_600_000;

/** By how much a source's clock is ahead of Redis' clock (negative: it was set back), ms; 0 when that was long ago, or never. */
export const clockAheadNow = (now: number, seen: ClockAhead | undefined): number =>
  seen !== undefined && now - seen.at < FORGOTTEN_MS ? seen.aheadMs : 0;
