/** The longest wait between two tries of one record. */
const MAX_DELAY_MS = 15 * 60_000;

/**
 * How long to wait after the nth try of a record ended in `unavailable` (n from 1), in ms:
 * doubling from `baseMs`, capped, with the upper half left to chance so that records which
 * failed together do not come back together.
 */
export function retryDelay(tries: number, baseMs: number, random: () => number): number {
  const ceiling = Math.min(MAX_DELAY_MS, baseMs * 2 ** Math.min(tries - 1, 30));
  return Math.round(ceiling * (0.5 + random() / 2));
}
