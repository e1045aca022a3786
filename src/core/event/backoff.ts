/** The pause before the next try of anything that fails: the one formula. Here, because everything may import it. Pure. */

/** ms */
export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** More doublings say nothing, and would overflow. */
const MOST_DOUBLINGS = 30;

/** @param tries how many have failed, from 1: each doubles the pause. @returns ms */
export const backoffMs = (tries: number, { firstMs, longestMs }: Backoff): number =>
  Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(tries - 1, 0), MOST_DOUBLINGS));

/**
 * A random pause of at least half of this one: what failed together is not tried again together.
 * @param random 0 to 1
 */
export const spread = (pauseMs: number, random: number): number => pauseMs * (0.5 + random / 2);
