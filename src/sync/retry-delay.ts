/** The longest wait between two tries of one record. */
const MAX_DELAY_MS = 15 * 60_000;

/**
 * The delay after the nth try of a record ended in `unavailable` (n from 1), ms. It doubles from
 * `baseMs` up to a cap; its upper half is random, so that records which failed together are not
 * retried together.
 */
export function retryDelay(tries: number, baseMs: number, random: () => number): number {
  const ceiling = Math.min(MAX_DELAY_MS, baseMs * 2 ** Math.min(tries - 1, 30));
  return Math.round(ceiling * (0.5 + random() / 2));
}
