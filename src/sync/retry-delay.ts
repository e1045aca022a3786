/** When a record is tried again after a request without a usable reply. Pure. */

/** The longest wait between two tries of one record, ms … */
const LONGEST_MS = 15 * 60_000;

/** … and when the last one found no connection: such a try costs the service nothing. */
export const LONGEST_UNCONNECTED_MS = 60_000;

/** Records that fail again and again take this part of the quota together, on average … */
const RETRIES = 0.1;

/** … once more of them wait than this part of an hour's requests: a few may be tried more often. */
const FEW = 0.01;

/** Each record is tried at least once a day, however many fail, ms. */
const LONGEST_SHARE_MS = 24 * 3_600_000;

/** What the random half leaves of a delay, on average. */
const MEAN = 0.75;

/**
 * The delay after the nth try of a record ended in `unavailable` (n from 1), ms. It doubles from
 * `baseMs` up to `longestMs`, and is not shorter than `shareMs`; its upper half is random, so that
 * records which failed together are not retried together.
 */
export function retryDelay(
  tries: number,
  baseMs: number,
  random: () => number,
  { longestMs = LONGEST_MS, shareMs = 0 } = {},
): number {
  const own = Math.min(longestMs, baseMs * 2 ** Math.min(tries - 1, 30));
  return Math.round(Math.max(own, shareMs) * (0.5 + random() / 2));
}

/**
 * How far apart the tries of one record are, at least, when so many wait for a retry, ms: each gets
 * an equal share of what retries may take. So records with which the service has a fault leave the
 * quota to all others, however many they are.
 */
export function retryShareMs(
  waiting: number,
  { perHour, hourMs }: { readonly perHour: number; readonly hourMs: number },
): number {
  if (waiting <= FEW * perHour) return 0;
  return Math.min(LONGEST_SHARE_MS, (waiting * hourMs) / (RETRIES * perHour * MEAN));
}
