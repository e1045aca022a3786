/** The longest wait between two tries of one record, ms … */
const LONGEST_MS = 15 * 60_000;

/** … and when the last one found no connection: such a try costs the service nothing. */
const LONGEST_UNCONNECTED_MS = 60_000;

/**
 * The delay after the nth try of a record ended in `unavailable` (n from 1), ms. It doubles from
 * `baseMs` up to a cap; its upper half is random, so that records which failed together are not
 * retried together.
 */
export function retryDelay(
  tries: number,
  baseMs: number,
  random: () => number,
  isUnconnected = false,
): number {
  const longest = isUnconnected ? LONGEST_UNCONNECTED_MS : LONGEST_MS;
  const ceiling = Math.min(longest, baseMs * 2 ** Math.min(tries - 1, 30));
  return Math.round(ceiling * (0.5 + random() / 2));
}
