/** What a reply leads to: how the taken state is given back, and how its run ends. */
import { backoffMs, spread } from "../event/backoff.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { DeadReason } from "./dead-letter.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { Keeps } from "./keeps.ts";
import type { Problem } from "../event/problem.ts";
import type { RunEnd } from "./outcomes.ts";
import type { Settlement, TakenState } from "./record.ts";
import {
  NO_CONNECTION,
  REJECTING,
  type ServiceReply,
  type UnavailableReason,
} from "./service-reply.ts";

export interface RetryPolicy {
  readonly baseMs: number;
  /** A change that has been `unavailable` for this long becomes a dead letter, ms. */
  readonly giveUpMs: number;
  /** For how long an ambiguous request may still arrive, ms. */
  readonly holdMs: number;
  readonly random: () => number;
}

/** What settling needs beside the reply and the state. */
export interface SettleContext {
  /** ms */
  readonly now: number;
  readonly retry: RetryPolicy;
  /** How far apart the tries of a record that fails are, at least, ms. */
  readonly retryShareMs: number;
  readonly fingerprintOf: FingerprintOf;
  readonly keeps: Keeps;
  /** The tenant's; undefined while they are not known. */
  readonly lists?: TenantLists | undefined;
}

export interface Settled {
  readonly settlement: Settlement;
  readonly end: RunEnd;
  readonly dead?: { readonly reason: DeadReason; readonly problems: readonly Problem[] };
}

/** A reply that tells nothing leaves open what was open. */
export const stillOpen = ({ doubt }: TakenState): Pick<Settlement, "doubt"> =>
  doubt === undefined ? {} : { doubt };

/** The change ends as a dead letter. */
export function giveUp(
  reason: DeadReason,
  settlement: Settlement,
  rule: string,
  kind: Problem["kind"],
  field = "",
): Settled {
  const problems = [{ field, rule, kind }];
  return {
    settlement: { ...settlement, dead: true },
    end: { finished: true, outcome: "rejected", reason, problems },
    dead: { reason, problems },
  };
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

/** After this many tries that ended in 403, only a person can help. */
const MAX_FORBIDDEN = 10;

/** Nothing was sent: this process was too slow. */
const NOT_SENT: ReadonlySet<UnavailableReason> = new Set(["stale_permit", "slept"]);

/** Without an answer, a request may still be on its way, or at work behind a gateway. */
const MAY_BE_LATE: ReadonlySet<UnavailableReason> = new Set([
  "timeout",
  "reset",
  "network",
  "closed",
  "gateway_error",
]);

export function settleUnavailable(
  reply: Extract<ServiceReply, { kind: "unavailable" }>,
  state: TakenState,
  { now, retry, retryShareMs }: SettleContext,
): Settled {
  const { reason } = reply;
  if (NOT_SENT.has(reason)) {
    return {
      settlement: { row: "before", finished: false, ...stillOpen(state) },
      end: { finished: false, outcome: "unavailable", reason },
    };
  }
  const holdMs = reply.ambiguous ? retry.holdMs : 0;
  const row = reply.ambiguous ? "uncertain" : "before";
  const late = reply.ambiguous && MAY_BE_LATE.has(reason);
  const tooLong = now - (state.firstTryAt ?? now) > retry.giveUpMs;
  const finished = { row, finished: true, holdMs, late } as const;
  const isForbidden = reason === "forbidden";
  if (isForbidden && (tooLong || state.counts.forbidden + 1 >= MAX_FORBIDDEN)) {
    const rule = `the service answered 403 for this record, ${state.counts.forbidden + 1} times: ${reply.error ?? "no reason given"}`;
    return giveUp("service_rejected", finished, rule, "the record");
  }
  if (tooLong) {
    const rule = `the service gave no usable reply for too long, ${state.counts.tries + 1} times (${reason})`;
    return giveUp("given_up", finished, rule, "the service");
  }
  const isRejected = reason === REJECTING;
  const bounds =
    isRejected || NO_CONNECTION.has(reason)
      ? { longestMs: LONGEST_UNCONNECTED_MS }
      : { shareMs: reason === "closed" ? 0 : retryShareMs };
  const delay = retryDelay(state.counts.tries + 1, retry.baseMs, retry.random, bounds);
  return {
    settlement: {
      row,
      finished: false,
      counts: isForbidden ? ["tries", "forbidden"] : ["tries"],
      holdMs,
      retryAt: now + Math.max(delay, holdMs),
      late,
      failure: reply.status === undefined ? reason : `${reply.status} (${reason})`,
      ...(isRejected ? ({ doubt: "rejected" } as const) : stillOpen(state)),
    },
    end: { finished: false, outcome: "unavailable", reason },
  };
}
