/** What a reply that tells nothing leads to: a retry, or a dead letter after too many. */
import { LONGEST_UNCONNECTED_MS, retryDelay } from "./retry-delay.ts";
import {
  NO_CONNECTION,
  REJECTING,
  type ServiceReply,
  type UnavailableReason,
} from "./service-reply.ts";
import { giveUp, stillOpen, type SettleContext, type Settled } from "./settled.ts";
import type { TakenState } from "./staged-state.ts";

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
