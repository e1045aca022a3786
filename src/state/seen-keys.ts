import type { Keys } from "./keys.ts";

const WEEK_S = 7 * 86_400;

/** Weeks that are looked at: the present one and the last, so an event is remembered for seven to fourteen days. */
const WEEKS = 2;

/** Time to live of a bucket from its first event on, s: a day longer than needed, for clocks that differ. */
export const SEEN_TTL_S = WEEKS * WEEK_S + 86_400;

/**
 * Most events in a bucket; there are 1024 a week (lua/seen-place.lua), so this is about 500,000 a day. Events
 * beyond that are not remembered: a repeated one is recognised by its order alone.
 */
export const SEEN_MAX_PER_BUCKET = 3500;

/** Prefixes of the buckets of seen events (lua/seen-place.lua): this week's, then last week's. */
export function seenKeys(keys: Keys): [thisWeek: string, lastWeek: string] {
  const week = Math.floor(Date.now() / 1000 / WEEK_S);
  return [keys.seen(week), keys.seen(week - 1)];
}
