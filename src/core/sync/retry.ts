/** When a record is tried again. */
import { backoffMs, spread } from "../event/backoff.ts";
import { NO_CONNECTION, REJECTING, type UnavailableReason } from "./service-reply.ts";

export interface RetryPolicy {
  readonly baseMs: number;
  /** A change that has been `unavailable` for this long becomes a dead letter, ms. */
  readonly giveUpMs: number;
  /** For how long an ambiguous request may still arrive, ms. */
  readonly holdMs: number;
  /** A read that contradicts what our own write proved is believed after twice this time, ms. */
  readonly verifyMs: number;
  readonly random: () => number;
}

/** The longest wait between two tries of one record, ms … */
const LONGEST_MS = 15 * 60_000;

/** … and when the last one found no connection: such a try costs the service nothing. */
const LONGEST_UNCONNECTED_MS = 60_000;

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
  const own = backoffMs(tries, { firstMs: baseMs, longestMs });
  return Math.round(spread(Math.max(own, shareMs), random()));
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

/** By what a reply has told: such a try costs the service nothing, or it may end for all records at once. */
export const boundsOf = (reason: UnavailableReason, shareMs: number) =>
  reason === REJECTING || NO_CONNECTION.has(reason)
    ? { longestMs: LONGEST_UNCONNECTED_MS }
    : { shareMs: reason === "closed" ? 0 : shareMs };

/** The longest wait of a record that is refused again and again (429, denied): it lets the others go first. */
export const REFUSED = { longestMs: 3_600_000 };

/** The first pause before a read that is doubted is repeated, as a part of the time after which it is believed. */
const FIRST_DOUBT = 1 / 120;

/**
 * When a read is repeated that contradicts what our own answered write proved: with growing pauses, because a copy of
 * the service may lag behind. @returns undefined once it is believed
 */
export function doubtAgainAt(
  since: number,
  now: number,
  { verifyMs }: Pick<RetryPolicy, "verifyMs">,
): number | undefined {
  const believedAt = since + 2 * verifyMs;
  if (now >= believedAt) return undefined;
  return Math.min(believedAt, now + Math.max(now - since, 2 * verifyMs * FIRST_DOUBT));
}
