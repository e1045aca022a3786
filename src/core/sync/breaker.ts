/**
 * The circuit breaker: what the newest replies say about the service as a whole. Pure; times in ms.
 *
 *   closed: each due record is sent. Open: one record per pause is tried.
 *   ROW records that fail, in a row         ► open, until a usable reply
 *   ROW records that are rejected, in a row ► open, until the service accepts a change; after
 *     `believeMs` the rejections are believed: closed, and each is final until a change is accepted
 *
 * Only a record's first failure can open it, so records that always fail do not stop the others.
 */
import { NO_CONNECTION, REJECTING } from "./service-reply.ts";

export interface Breaker {
  /** Records that failed in a row. */
  readonly failures: number;
  /** The first records that were rejected in a row, as hashes, and since when. */
  readonly rejected: readonly string[];
  readonly rejectedSince?: number | undefined;
  readonly believed?: boolean;
  /** While it is open; the reason is that of the newest failure. */
  readonly open?: Open | undefined;
  /** Rejections since then may have been false, although the service accepts other changes again. */
  readonly doubtedSince?: number | undefined;
}

export interface Open {
  readonly since: number;
  readonly reason: string;
  readonly nextTryAt: number;
}

/** What one reply says. `told`: the reason for people. `again`: the record's rejection was put off before (`doubt: "rejected"`). */
export type Heard =
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly told?: string;
      readonly isFirst: boolean;
    }
  | { readonly kind: "rejected"; readonly record: string; readonly again: boolean }
  | { readonly kind: "accepted"; readonly again: boolean }
  /** Any other usable reply. */
  | { readonly kind: "answered" };

export const CLOSED: Breaker = { failures: 0, rejected: [] };

const ROW = 5;

/** A pause is this part of the time since the breaker opened, so an end is noticed in proportion … */
const PARTS = { failing: 30, rejecting: 4 };
/** … but within these bounds, ms. */
const SHORTEST_MS = 1000;
const LONGEST_MS = 60_000;

/** Whether nothing speaks against the service. */
export const isQuiet = ({ failures, open, rejected }: Breaker): boolean =>
  failures === 0 && rejected.length === 0 && open === undefined;

/** Whether the service rejects everything, and a rejection is put off. */
export const isRejecting = ({ believed, rejected }: Breaker): boolean =>
  rejected.length >= ROW && believed !== true;

/** Since when rejections may have been false: if a record that was rejected is accepted now, they were. */
export const doubtedSince = (b: Breaker): number | undefined =>
  b.rejected.length < ROW ? b.doubtedSince : b.rejectedSince;

/** @param isTry whether this is the reply to the open breaker's try: other late ones move no pause. */
export function hear(
  b: Breaker,
  heard: Heard,
  isTry: boolean,
  now: number,
  believeMs: number,
): Breaker {
  const goOn = (next: Breaker, open: Open, reason: string): Breaker =>
    isTry ? pause(next, reason, now) : { ...next, open: { ...open, reason } };
  switch (heard.kind) {
    case "failed": {
      const { isFirst, reason, told = reason } = heard;
      const counts = isFirst || NO_CONNECTION.has(reason);
      const next = counts ? { ...b, failures: b.failures + 1 } : b;
      if (b.open !== undefined) return goOn(next, b.open, told);
      return counts && next.failures >= ROW ? pause(next, told, now) : next;
    }
    case "rejected": {
      const { again, record } = heard;
      const isNew = !again && b.rejected.length < ROW && !b.rejected.includes(record);
      const next: Breaker = isNew
        ? {
            ...b,
            failures: 0,
            rejected: [...b.rejected, record],
            rejectedSince: b.rejectedSince ?? now,
          }
        : { ...b, failures: 0 };
      if (!isRejecting(next)) return { ...next, open: undefined };
      if (b.open === undefined || !isRejecting(b))
        return pause({ ...next, open: undefined }, REJECTING, now);
      if (now - b.open.since < believeMs) return goOn(next, b.open, REJECTING);
      return { ...next, open: undefined, believed: true };
    }
    case "answered":
      if (!isRejecting(b)) return { ...b, failures: 0, open: undefined };
      return isTry ? notTried(b, now) : b;
    case "accepted":
      return { ...CLOSED, doubtedSince: heard.again ? undefined : doubtedSince(b) };
  }
}

/**
 * Asks for the one try of an open breaker.
 * @param tryMs the longest that it may take: no other is made before it has ended.
 * @returns how long to wait, ms; 0: it may be made now, and the breaker notes it.
 */
export function claim(
  b: Breaker,
  now: number,
  tryMs: number,
): { breaker: Breaker; waitMs: number } {
  if (b.open === undefined) return { breaker: b, waitMs: 0 };
  const waitMs = Math.max(0, b.open.nextTryAt - now);
  if (waitMs > 0) return { breaker: b, waitMs };
  const nextTryAt = now + Math.max(tryMs, pauseMs(b, now));
  return { breaker: { ...b, open: { ...b.open, nextTryAt } }, waitMs: 0 };
}

/** The try was not made, or its reply says nothing. */
export const notTried = (b: Breaker, now: number): Breaker =>
  b.open === undefined ? b : pause(b, b.open.reason, now);

function pause(b: Breaker, reason: string, now: number): Breaker {
  const since = b.open?.since ?? now;
  return { ...b, open: { since, reason, nextTryAt: now + pauseMs(b, now) } };
}

function pauseMs(b: Breaker, now: number): number {
  const part = isRejecting(b) ? PARTS.rejecting : PARTS.failing;
  return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (now - (b.open?.since ?? now)) / part));
}
