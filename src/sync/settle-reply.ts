/**
 * What each reply of the service leads to: the one table from a reply to its outcome.
 * Source: spec, "Errors" and the responses of each endpoint.
 */
import { FIELDS_OF, variantOf } from "../service-spec/business-relation.ts";
import type { Problem } from "./problem.ts";
import type { DeadReason } from "./dead-letter.ts";
import type { Sendable } from "./decide.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { LedgerRow } from "./ledger-row.ts";
import { retryDelay } from "./retry-delay.ts";
import type { RunEnd } from "./run-end.ts";
import type { ServiceReply } from "./service-reply.ts";
import type { Settlement, TakenState } from "./staged-state.ts";

export interface RetryPolicy {
  readonly baseMs: number;
  /** A change that has been `unavailable` for this long becomes a dead letter, ms. */
  readonly giveUpMs: number;
  /** For how long an ambiguous request may still arrive, ms. */
  readonly holdMs: number;
  readonly random: () => number;
}

interface Settled {
  readonly settlement: Settlement;
  readonly end: RunEnd;
  readonly dead?: { readonly reason: DeadReason; readonly problems: readonly Problem[] };
}

/** A record that still alternates between 404 and 409 after so many runs is delayed. */
const MAX_HEALS = 3;

const COMPLETE = { kind: "complete" } as const;
const AGAIN = { kind: "again" } as const;

export function settleReply(
  reply: ServiceReply,
  sent: Sendable,
  state: TakenState,
  known: LedgerRow,
  now: number,
  retry: RetryPolicy,
): Settled {
  const proven = { ...known, uncertain: false, provedAt: now };
  switch (reply.kind) {
    case "created":
    case "updated": {
      const body = sent.kind === "fetch" ? {} : sent.body;
      return {
        settlement: { row: { ...rowOf(body, now), watermark: state.order }, finished: true },
        end: { next: COMPLETE, outcome: reply.kind },
      };
    }
    case "found": {
      const row = { ...rowOf(reply.body, now), watermark: known.watermark };
      const payload = JSON.stringify(ownFields(reply.body));
      return {
        settlement: { row, finished: false, payload },
        end: { next: AGAIN, reason: "fetched" },
      };
    }
    case "exists": {
      const row = { ...proven, exists: true, fingerprint: undefined, terminated: false };
      return heal(state, row, "exists", now, retry);
    }
    case "missing": {
      const row = { ...proven, exists: false, fingerprint: undefined, terminated: false };
      if (state.status === "terminated") {
        return {
          settlement: { row: { ...row, watermark: state.order }, finished: true },
          end: { next: COMPLETE, outcome: "skipped", reason: "nothing_to_terminate" },
        };
      }
      return heal(state, row, "missing", now, retry);
    }
    case "rejected": {
      const rule = `the service answered ${reply.status}: ${reply.error}`;
      const problems = [{ field: "", rule, kind: "the payload" }];
      return {
        settlement: { row: "before", finished: true },
        end: { next: COMPLETE, outcome: "rejected", reason: "service_rejected", problems },
        dead: { reason: "service_rejected", problems },
      };
    }
    // The pause after a 429 or a denial is shared state; the job only goes back to the front.
    case "throttled":
    case "denied":
      return {
        settlement: { row: "before", finished: false },
        end: { next: AGAIN, outcome: reply.kind },
      };
    case "unavailable":
      return unavailable(reply, state, now, retry);
  }
}

function heal(
  state: TakenState,
  row: LedgerRow,
  reason: string,
  now: number,
  retry: RetryPolicy,
): Settled {
  const settlement = { row, finished: false, healed: true };
  const next =
    state.heals < MAX_HEALS
      ? AGAIN
      : ({ kind: "later", at: now + retryDelay(state.heals, retry.baseMs, retry.random) } as const);
  return { settlement, end: { next, reason } };
}

function unavailable(
  reply: Extract<ServiceReply, { kind: "unavailable" }>,
  state: TakenState,
  now: number,
  retry: RetryPolicy,
): Settled {
  const holdMs = reply.ambiguous ? retry.holdMs : 0;
  const row = reply.ambiguous ? "uncertain" : "before";
  const { reason } = reply;
  if (now - (state.firstTryAt ?? now) > retry.giveUpMs) {
    const rule = `the service gave no usable reply for too long, ${state.tries + 1} times (${reason})`;
    const problems = [{ field: "", rule, kind: "the service" }];
    return {
      settlement: { row, finished: true, holdMs },
      end: { next: COMPLETE, outcome: "rejected", reason: "given_up", problems },
      dead: { reason: "given_up", problems },
    };
  }
  const delay = retryDelay(state.tries + 1, retry.baseMs, retry.random);
  return {
    settlement: { row, finished: false, failed: true, holdMs },
    end: {
      next: { kind: "later", at: now + Math.max(delay, holdMs) },
      outcome: "unavailable",
      reason,
    },
  };
}

/** The ledger's row for a body that the service holds. */
export function rowOf(body: Readonly<Record<string, unknown>>, now: number): LedgerRow {
  return {
    exists: true,
    uncertain: false,
    fingerprint: fingerprintOf(body),
    terminated: body["relationStatus"] === "terminated",
    variant: variantOf(body["type"]),
    watermark: "",
    provedAt: now,
  };
}

/** The fields that a client may send back (spec); the service may return more. */
function ownFields(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return { ...body };
  return Object.fromEntries(
    Object.entries(body).filter(
      ([field, value]) => FIELDS_OF[variant].has(field) && value !== null && value !== "",
    ),
  );
}
