/**
 * What each reply of the service leads to: the one table from a reply to its outcome, also while the service rejects
 * everything. Source: spec, "Errors" and the responses of each endpoint.
 */
import { REJECTIONS, type Sendable } from "./decide.ts";
import { bringsFields, isSent } from "./known.ts";
import type { LedgerRow } from "./ledger-row.ts";
import type { Confirm } from "./record.ts";
import { boundsOf, REFUSED, retryDelay } from "./retry.ts";
import type { TakenState } from "./run.ts";
import { NOT_SENT, REJECTING, type ServiceReply } from "./service-reply.ts";
import { confirmed, found, renamed, unconfirmed } from "./settle-read.ts";
import { again, done, giveUp, reads, type SettleContext, type Settled } from "./settled.ts";

/** A record that still alternates between 404 and 409 after this many runs is delayed … */
const HEALS_AT_ONCE = 3;
/** … and after this many the service contradicts itself, and no further request would help. */
const MAX_HEALS = 6;
/** After this many tries that ended in 403, only a person can help. */
const MAX_FORBIDDEN = 10;

/** @param sent the decision that was sent; `state.row` is the ledger's row from before the request. */
export function settleReply(
  reply: ServiceReply,
  sent: Sendable,
  state: TakenState,
  context: SettleContext,
): Settled {
  const { confirm } = state.change;
  const isRead = sent.kind === "fetch";
  switch (reply.kind) {
    case "created":
    case "updated":
      return done(reply.kind, isRead ? {} : sent.body, state, context);
    case "accepted":
      return again("accepted", { row: "unknown", openMs: 0, confirm: accepted(state, context) });
    case "renamed":
      if (isRead) return renamed(confirm?.why === "renamed" ? "unknown" : "before");
      return again("renamed", { row: "unknown", ...reads("renamed", context) });
    case "exists":
      return heal("exists", state, context);
    case "found":
      return found(reply.body, sent, state, context);
    case "missing":
      return missing(state, context);
    case "rejected": {
      const { error, status } = reply;
      const isRefused = isSent(state.change);
      if (context.isRejecting || isRefused) {
        // A read that is refused tells nothing of what was sent.
        const reason = isRefused ? "undeclared_status" : REJECTING;
        const putOff = { kind: "unavailable", reason, ambiguous: false } as const;
        return unavailable({ ...putOff, error, status }, state, context);
      }
      if (mayBeOtherVariant(sent, state))
        return again("other_variant", { counts: ["heals"], ...reads("variant", context) });
      const rule = `the service answered ${status}: ${error}${ownText(state)}${carriedOver(sent, state)}`;
      return giveUp("service_rejected", "before", rule, "the payload");
    }
    case "throttled":
    case "denied":
      return refused(reply.kind, state, context);
    case "unavailable":
      return unavailable(reply, state, context);
  }
}

/** Reading it may show that the write has taken effect: an earlier request may still do. */
const accepted = ({ row }: TakenState, { now }: SettleContext): Confirm => ({
  why: "accepted",
  since: now,
  ...(row.openUntil !== undefined && { isOpen: true }),
});

/** It is on the service, and cannot be read once more: if an earlier request was open, the row still says so. */
const notConfirmed = (): Settled => ({
  settlement: { row: "before", finished: true },
  end: { finished: true, reason: "not_confirmed" },
});

/** 404: the relation is not there. */
function missing(state: TakenState, context: SettleContext): Settled {
  const { change, payload, row: known, status } = state;
  const { now, retry } = context;
  const { confirm } = change;
  if (confirm !== undefined && isSent(change)) return confirmed(undefined, confirm, state, context);
  if (confirm?.why === "renamed") return renamed("unknown");
  if (confirm?.why === "accepted") return unconfirmed("unknown", state, context);
  // One 404 is believed if a list did not show the relation either, or if the change is to create it.
  const mayBeThere = known.exists === true || payload === undefined || status === "terminated";
  if (known.exists !== false && mayBeThere && confirm?.why !== "missing") {
    const retryAt = now + retryDelay(1, retry.baseMs, retry.random);
    return again("missing_once", { ...reads("missing", context), retryAt });
  }
  if (status !== "terminated") {
    const [nothing] = payload === undefined ? REJECTIONS.nothing_to_restore : [];
    if (nothing === undefined) return heal("missing", state, context);
    return giveUp(
      "nothing_to_restore",
      answered(known, false, now),
      nothing.rule,
      nothing.kind,
      nothing,
    );
  }
  // The service had it: two false 404s in a row must not end a deletion for good.
  const later = known.exists === true ? reads("late", context) : {};
  return {
    settlement: {
      row: { ...answered(known, false, now), orders: state.orders },
      finished: true,
      ...later,
    },
    end: { finished: true, outcome: "skipped", reason: "nothing_to_terminate" },
  };
}

function answered(known: LedgerRow, exists: boolean, now: number): LedgerRow {
  const { byList: _, written: __, ...row } = known;
  return {
    ...row,
    exists,
    uncertain: false,
    fingerprint: undefined,
    terminated: false,
    provedAt: now,
  };
}

/** 409 or 404: the other request is sent. */
function heal(
  reason: "exists" | "missing",
  { change, row: known }: TakenState,
  { now, retry }: SettleContext,
): Settled {
  const { heals = 0 } = change.tries ?? {};
  if (heals >= MAX_HEALS) {
    const rule = `the service says both that the relation exists (409) and that it does not (404), ${heals} times`;
    return giveUp("contradiction", "before", rule, "the crmCode");
  }
  const retryAt =
    heals < HEALS_AT_ONCE ? undefined : now + retryDelay(heals, retry.baseMs, retry.random);
  // The service had it: a deletion that comes before the next answer asks again.
  const isWeak = reason === "missing" && known.exists === true;
  return again(reason, {
    row: { ...answered(known, reason === "exists", now), ...(isWeak && { byList: true }) },
    counts: ["heals"],
    retryAt,
  });
}

/**
 * The pause after a 429 or a denial is shared state, so the record goes back to its place. If it is refused again, it
 * may itself be the reason: others go first when the pause ends.
 */
function refused(
  outcome: "throttled" | "denied",
  { change: { confirm, tries } }: TakenState,
  { now, retry, stoppedUntil = 0 }: SettleContext,
): Settled {
  const { refused: before = 0 } = tries ?? {};
  const later = before > 0 && {
    retryAt: Math.max(now, stoppedUntil) + retryDelay(before, retry.baseMs, retry.random, REFUSED),
    failure: outcome === "throttled" ? "429 (throttled)" : outcome,
  };
  return {
    settlement: { row: "before", finished: false, counts: ["refused"], confirm, ...later },
    end: { finished: false, outcome },
  };
}

function unavailable(
  reply: Extract<ServiceReply, { kind: "unavailable" }>,
  { change }: TakenState,
  { now, retry, retryShareMs }: SettleContext,
): Settled {
  const { ambiguous, error = "no reason given", reason, status } = reply;
  const { confirm } = change;
  const { failed = 0, firstAt = now, forbidden = 0 } = change.tries ?? {};
  if (NOT_SENT.has(reason)) return again(reason, { confirm }, "unavailable");
  const row = ambiguous ? "unknown" : "before";
  const openMs = ambiguous ? retry.holdMs : undefined;
  const tooLong = now - firstAt > retry.giveUpMs;
  const isForbidden = reason === "forbidden";
  const isRefused = isForbidden && (tooLong || forbidden + 1 >= MAX_FORBIDDEN);
  if ((isRefused || tooLong) && isSent(change)) return notConfirmed();
  if (isRefused) {
    const rule = `the service answered 403 for this record, ${forbidden + 1} times: ${error}`;
    return giveUp("service_rejected", row, rule, "the record", { openMs });
  }
  if (tooLong) {
    const rule = `the service gave no usable reply for too long, ${failed + 1} times (${reason})`;
    return giveUp("given_up", row, rule, "the service", { openMs });
  }
  const bounds = boundsOf(reason, retryShareMs);
  const delay = retryDelay(failed + 1, retry.baseMs, retry.random, bounds);
  const more = isForbidden
    ? (["forbidden"] as const)
    : reason === REJECTING
      ? (["putOff"] as const)
      : [];
  const failure = status === undefined ? reason : `${status} (${reason})`;
  const retryAt = now + Math.max(delay, openMs ?? 0);
  const how = { row, openMs, counts: ["failed", ...more], failure, retryAt, confirm } as const;
  return again(reason, how, "unavailable");
}

/** Why to correct nothing in the CRM: the rejected request had fields that no event brought. "" otherwise. */
const ownText = (state: TakenState): string =>
  state.payload !== undefined && !bringsFields(state)
    ? "; the request carried the fields that the service itself has: correct them at the service, then redrive"
    : "";

/** Names the kept fields of a rejected request: their values are not the CRM's. */
function carriedOver(sent: Sendable, { kept }: TakenState): string {
  const isUsed = kept !== undefined && sent.kind === "update";
  const fields = isUsed ? Object.keys(JSON.parse(kept) as object) : [];
  if (fields.length === 0) return "";
  return `; it carried what the service itself has in ${fields.join(", ")} (others maintain these fields, or the mapping did not understand ours): if one of these is the reason, correct it at the service`;
}

/** A termination with the fields of a person cannot be sent to a company, and the reverse. */
const mayBeOtherVariant = (sent: Sendable, { change, row, status }: TakenState): boolean =>
  sent.kind === "update" &&
  status === "terminated" &&
  row.variant === undefined &&
  change.tries?.heals === undefined;
