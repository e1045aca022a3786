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
import type { ServiceReply, UnavailableReason } from "./service-reply.ts";
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
const HEALS_AT_ONCE = 3;

/** After so many the service contradicts itself, and no further request would help. */
const MAX_HEALS = 6;

/** After so many tries that ended in 403, only a person can help. */
const MAX_FORBIDDEN = 10;

/** So often a write that was accepted without proof, and is not there, is sent again. */
const MAX_UNCONFIRMED = 5;

/** Without an answer, a request may still be on its way, or at work behind a gateway. */
const MAY_BE_LATE: ReadonlySet<UnavailableReason> = new Set([
  "timeout",
  "reset",
  "network",
  "closed",
  "gateway_error",
]);

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
      return done(reply.kind, body, state, now);
    }
    case "accepted":
      return {
        settlement: { row: "uncertain", finished: false, doubt: "accepted" },
        end: { next: AGAIN, reason: "accepted" },
      };
    case "found": {
      if (sent.kind === "check") return checked(reply.body, sent.body, state, known, now, retry);
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
      if (sent.kind === "check") return unconfirmed(state, "uncertain", now, retry);
      if (known.exists === true && state.doubt !== "missing") return askAgain(now, retry);
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
      if (mayBeOtherVariant(sent, state, known)) {
        return {
          settlement: { row: "before", finished: false, counts: ["heals"], doubt: "variant" },
          end: { next: AGAIN, reason: "other_variant" },
        };
      }
      const rule = `the service answered ${reply.status}: ${reply.error}`;
      return giveUp("service_rejected", { row: "before", finished: true }, rule, "the payload");
    }
    // The pause after a 429 or a denial is shared state; the job only goes back to the front.
    case "throttled":
    case "denied":
      return {
        settlement: { row: "before", finished: false, ...stillOpen(state) },
        end: { next: AGAIN, outcome: reply.kind },
      };
    case "unavailable":
      return unavailable(reply, state, now, retry);
  }
}

/** The service has the wanted body. */
function done(
  outcome: "created" | "updated",
  body: Readonly<Record<string, unknown>>,
  state: TakenState,
  now: number,
): Settled {
  return {
    settlement: { row: { ...rowOf(body, now), watermark: state.order }, finished: true },
    end: { next: COMPLETE, outcome },
  };
}

/** The relation as it is, after a write that was accepted without proof. */
function checked(
  found: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
  state: TakenState,
  known: LedgerRow,
  now: number,
  retry: RetryPolicy,
): Settled {
  const fingerprint = fingerprintOf(found);
  if (fingerprint !== undefined && fingerprint === fingerprintOf(wanted)) {
    return done(known.exists === true ? "updated" : "created", found, state, now);
  }
  const row = { ...rowOf(found, now), watermark: known.watermark };
  return unconfirmed(state, row, now, retry);
}

/** The write is sent again: reading did not show what the service had accepted. */
function unconfirmed(
  state: TakenState,
  row: Settlement["row"],
  now: number,
  retry: RetryPolicy,
): Settled {
  const reason = "unconfirmed";
  if (state.unconfirmed >= MAX_UNCONFIRMED) {
    const rule = `the service accepted the change ${state.unconfirmed + 1} times, and does not have it`;
    return giveUp("contradiction", { row, finished: true, late: true }, rule, "the service");
  }
  const at = now + retryDelay(state.unconfirmed + 1, retry.baseMs, retry.random);
  return {
    settlement: { row, finished: false, counts: ["tries", "unconfirmed"], late: true },
    end: { next: { kind: "later", at }, outcome: "unavailable", reason },
  };
}

/** A 404 about a relation that the ledger knows is believed when it is repeated. */
function askAgain(now: number, retry: RetryPolicy): Settled {
  const at = now + retryDelay(1, retry.baseMs, retry.random);
  return {
    settlement: { row: "before", finished: false, doubt: "missing" },
    end: { next: { kind: "later", at }, reason: "missing_once" },
  };
}

/** A termination with the fields of a person cannot be sent to a company, and the reverse. */
const mayBeOtherVariant = (sent: Sendable, state: TakenState, known: LedgerRow): boolean =>
  sent.kind === "update" &&
  state.status === "terminated" &&
  known.variant === undefined &&
  state.heals === 0;

function heal(
  state: TakenState,
  row: LedgerRow,
  reason: "exists" | "missing",
  now: number,
  retry: RetryPolicy,
): Settled {
  if (state.heals >= MAX_HEALS) {
    const rule = `the service says both that it exists (409) and that it does not (404), ${state.heals} times`;
    return giveUp("contradiction", { row: "before", finished: true }, rule, "the crmCode");
  }
  const settlement = { row, finished: false, counts: ["heals"] } as const;
  const next =
    state.heals < HEALS_AT_ONCE
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
  const { reason } = reply;
  const holdMs = reply.ambiguous ? retry.holdMs : 0;
  const row = reply.ambiguous ? "uncertain" : "before";
  const late = reply.ambiguous && MAY_BE_LATE.has(reason);
  const tooLong = now - (state.firstTryAt ?? now) > retry.giveUpMs;
  const finished = { row, finished: true, holdMs, late } as const;
  const isForbidden = reason === "forbidden";
  if (isForbidden && (tooLong || state.forbidden + 1 >= MAX_FORBIDDEN)) {
    const rule = `the service answered 403 for this record, ${state.forbidden + 1} times: ${reply.error ?? "no reason given"}`;
    return giveUp("service_rejected", finished, rule, "the record");
  }
  if (tooLong) {
    const rule = `the service gave no usable reply for too long, ${state.tries + 1} times (${reason})`;
    return giveUp("given_up", finished, rule, "the service");
  }
  const delay = retryDelay(state.tries + 1, retry.baseMs, retry.random);
  return {
    settlement: {
      row,
      finished: false,
      counts: isForbidden ? ["tries", "forbidden"] : ["tries"],
      holdMs,
      late,
      ...stillOpen(state),
    },
    end: {
      next: { kind: "later", at: now + Math.max(delay, holdMs) },
      outcome: "unavailable",
      reason,
    },
  };
}

/** A reply that tells nothing leaves open what was open. */
const stillOpen = ({ doubt }: TakenState): Pick<Settlement, "doubt"> =>
  doubt === undefined ? {} : { doubt };

/** The change ends as a dead letter. */
function giveUp(
  reason: DeadReason,
  settlement: Settlement,
  rule: string,
  kind: Problem["kind"],
): Settled {
  const problems = [{ field: "", rule, kind }];
  return {
    settlement,
    end: { next: COMPLETE, outcome: "rejected", reason, problems },
    dead: { reason, problems },
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
