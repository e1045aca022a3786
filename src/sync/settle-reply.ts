/**
 * What each reply of the service leads to: the one table from a reply to its outcome.
 * Source: spec, "Errors" and the responses of each endpoint.
 */
import { FIELDS_OF, REQUIRED_OF, variantOf } from "../service-spec/business-relation.ts";
import type { Check, Sendable } from "./decide.ts";
import { agrees, type FingerprintOf } from "./fingerprint.ts";
import { keptIn } from "./keeps.ts";
import { rowOf, type LedgerRow } from "./ledger-row.ts";
import { changeBetween } from "./marks.ts";
import {
  retryDelay,
  settleUnavailable,
  giveUp,
  stillOpen,
  type SettleContext,
  type Settled,
} from "./settled.ts";
import type { ServiceReply } from "./service-reply.ts";
import { bringsFields, type Settlement, type TakenState } from "./record.ts";
import { withoutUnlisted } from "./validate.ts";

/** A record that still alternates between 404 and 409 after this many runs is delayed. */
const HEALS_AT_ONCE = 3;

/** After this many heals the service contradicts itself, and no further request would help. */
const MAX_HEALS = 6;

/** How often a write is sent again that was accepted without proof and is not there. */
const MAX_UNCONFIRMED = 5;

/** @param sent the decision that was sent. @param known the ledger's row from before the request. */
export function settleReply(
  reply: ServiceReply,
  sent: Sendable,
  state: TakenState,
  known: LedgerRow,
  context: SettleContext,
): Settled {
  const { now } = context;
  const proven = { ...known, uncertain: false, provedAt: now };
  switch (reply.kind) {
    case "created":
    case "updated": {
      const body = sent.kind === "fetch" ? {} : sent.body;
      return done(reply.kind, body, state, known, context);
    }
    case "accepted":
      return {
        settlement: { row: "uncertain", finished: false, doubt: "accepted" },
        end: { finished: false, reason: "accepted" },
      };
    case "renamed":
      if (isRead(sent)) return renamed(sent);
      return {
        settlement: { row: "uncertain", finished: false, doubt: "renamed" },
        end: { finished: false, reason: "renamed" },
      };
    case "found": {
      if (sent.kind === "check") return checked(reply.body, sent, state, known, context);
      return fetched(reply.body, sent, state, known, context);
    }
    case "exists": {
      const { byList: _, ...answered } = proven;
      const row = { ...answered, exists: true, fingerprint: undefined, terminated: false };
      return heal(state, row, "exists", context);
    }
    case "missing": {
      if (sent.kind === "check") {
        if (state.doubt === "renamed") return renamed(sent);
        return unconfirmed(state, "uncertain", context);
      }
      // For a relation that the ledger does not know, one 404 is no proof either.
      const mayExist = known.exists === true || state.status === "terminated";
      if (known.exists !== false && mayExist && state.doubt !== "missing") return askAgain(context);
      const { byList: _, ...answered } = proven;
      const row = { ...answered, exists: false, fingerprint: undefined, terminated: false };
      if (state.status === "terminated") {
        return {
          // The service had it: two false 404s in a row must not end a deletion for good.
          settlement: {
            row: { ...row, orders: state.orders },
            finished: true,
            late: known.exists === true,
          },
          end: { finished: true, outcome: "skipped", reason: "nothing_to_terminate" },
        };
      }
      return heal(state, row, "missing", context);
    }
    case "rejected": {
      if (mayBeOtherVariant(sent, state, known)) {
        return {
          settlement: { row: "before", finished: false, counts: ["heals"], doubt: "variant" },
          end: { finished: false, reason: "other_variant" },
        };
      }
      const rule = `the service answered ${reply.status}: ${reply.error}${ownText(state)}${carriedOver(sent, state)}`;
      return giveUp("service_rejected", { row: "before", finished: true }, rule, "the payload");
    }
    case "throttled":
    case "denied":
      return refused(reply.kind, state, context);
    case "unavailable":
      return settleUnavailable(reply, state, context);
  }
}

/** How long a record that is refused again and again lets the others go first, at most, ms. */
const LONGEST_REFUSED_MS = 3_600_000;

/**
 * The pause after a 429 or a denial is shared state, so the record goes back to its place. If it is refused again, it
 * may itself be the reason: it must not stop the others each time.
 */
function refused(
  outcome: "throttled" | "denied",
  state: TakenState,
  { now, retry }: SettleContext,
): Settled {
  const { refused: before } = state.counts;
  const longest = { longestMs: LONGEST_REFUSED_MS };
  const later = before > 0 && {
    retryAt: now + retryDelay(before, retry.baseMs, retry.random, longest),
    failure: outcome === "throttled" ? "429 (throttled)" : outcome,
  };
  return {
    settlement: {
      row: "before",
      finished: false,
      counts: ["refused"],
      ...later,
      ...stillOpen(state),
    },
    end: { finished: false, outcome },
  };
}

/** The service has the wanted body. */
function done(
  outcome: "created" | "updated",
  body: Readonly<Record<string, unknown>>,
  state: TakenState,
  known: LedgerRow,
  { fingerprintOf, now }: SettleContext,
): Settled {
  const row = {
    ...rowOf(body, now, fingerprintOf),
    ...partialOf(body, state, fingerprintOf),
    orders: state.orders,
  };
  const change = outcome === "updated" ? changeBetween(known, row) : undefined;
  return {
    settlement: { row, finished: true },
    end: { finished: true, outcome, ...(change && { change }) },
  };
}

/** What was settled, where not all of it was understood. */
function partialOf(
  body: Readonly<Record<string, unknown>>,
  { notUnderstood }: TakenState,
  fingerprintOf: FingerprintOf,
): Pick<LedgerRow, "partial"> {
  const partial = notUnderstood.length > 0 ? fingerprintOf(body, notUnderstood) : undefined;
  return partial === undefined ? {} : { partial };
}

/** The relation was read: the next run sends what it lacks, with its kept fields as the service has them. */
function fetched(
  found: Readonly<Record<string, unknown>>,
  sent: Sendable,
  state: TakenState,
  known: LedgerRow,
  context: SettleContext,
): Settled {
  const { fingerprintOf, keeps, lists, now } = context;
  const into = sent.kind === "fetch" ? sent.into : undefined;
  const row = { ...rowOf(found, now, fingerprintOf), orders: known.orders };
  const { notUnderstood } = state;
  const isSame =
    into !== undefined &&
    agrees(fingerprintOf(into, notUnderstood), fingerprintOf(found, notUnderstood));
  if (isSame) {
    // An earlier write, which had no answer, was applied.
    if (known.uncertain) {
      return done(known.exists === true ? "updated" : "created", found, state, known, context);
    }
    const reason = state.status === "terminated" ? "nothing_to_terminate" : "unchanged";
    return {
      settlement: {
        row: { ...row, ...partialOf(found, state, fingerprintOf), orders: state.orders },
        finished: true,
      },
      end: { finished: true, outcome: "skipped", reason },
    };
  }
  if (contradicts(row, known) && state.doubt !== "lagging") return readAgain(context);
  const kept = keptIn(found, into, keeps);
  const own = ownFields(found);
  // A relation must end even if the tenant's lists no longer allow a value that it has.
  const isEnd = state.status === "terminated" && lists !== undefined;
  const payload = isEnd ? withoutUnlisted(own, lists) : own;
  return {
    settlement: {
      row,
      finished: false,
      ...(into === undefined && { payload: JSON.stringify(payload) }),
      ...(kept !== undefined && { kept: JSON.stringify(kept), counts: ["reads"] as const }),
    },
    end: { finished: false, reason: "fetched" },
  };
}

/** The relation was read after a write that was accepted without proof. */
function checked(
  found: Readonly<Record<string, unknown>>,
  sent: Check,
  state: TakenState,
  known: LedgerRow,
  context: SettleContext,
): Settled {
  const { fingerprintOf, now } = context;
  const { notUnderstood } = state;
  if (agrees(fingerprintOf(sent.body, notUnderstood), fingerprintOf(found, notUnderstood))) {
    return done(known.exists === true ? "updated" : "created", found, state, known, context);
  }
  if (state.doubt === "renamed") return renamed(sent);
  const row = { ...rowOf(found, now, fingerprintOf), orders: known.orders };
  return unconfirmed(state, row, context);
}

const isRead = ({ kind }: Sendable): boolean => kind === "check" || kind === "fetch";

/** What was read is not the relation of our crmCode. A write may have changed the one that the service names. */
function renamed({ kind }: Sendable): Settled {
  const row = kind === "check" ? "uncertain" : "before";
  const rule =
    "the service names the crmCode otherwise (without blanks, or in another case or Unicode form): it would change another relation";
  return giveUp("contradiction", { row, finished: true }, rule, "the crmCode", "crmCode");
}

/** The write is sent again: reading did not show what the service had accepted. */
function unconfirmed(
  state: TakenState,
  row: Settlement["row"],
  { now, retry }: SettleContext,
): Settled {
  const reason = "unconfirmed";
  if (state.counts.unconfirmed >= MAX_UNCONFIRMED) {
    const rule = `the service accepted the change ${state.counts.unconfirmed + 1} times, and does not have it`;
    return giveUp("contradiction", { row, finished: true, late: true }, rule, "the service");
  }
  const retryAt = now + retryDelay(state.counts.unconfirmed + 1, retry.baseMs, retry.random);
  return {
    settlement: { row, finished: false, counts: ["tries", "unconfirmed"], late: true, retryAt },
    end: { finished: false, outcome: "unavailable", reason },
  };
}

/** A 404 about a relation that the ledger knows is believed when it is repeated. */
function askAgain({ now, retry }: SettleContext): Settled {
  const retryAt = now + retryDelay(1, retry.baseMs, retry.random);
  return {
    settlement: { row: "before", finished: false, doubt: "missing", retryAt },
    end: { finished: false, reason: "missing_once" },
  };
}

/** A read that shows something else than what is proven may come from a copy that lags behind. */
const contradicts = (found: LedgerRow, known: LedgerRow): boolean =>
  known.exists === true &&
  !known.uncertain &&
  known.fingerprint !== undefined &&
  !agrees(known.fingerprint, found.fingerprint);

/** How long a copy of the service may lag behind, ms. */
const LAG_MS = 5000;

function readAgain({ now }: SettleContext): Settled {
  return {
    settlement: { row: "before", finished: false, doubt: "lagging", retryAt: now + LAG_MS },
    end: { finished: false, reason: "lagging" },
  };
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
const mayBeOtherVariant = (sent: Sendable, state: TakenState, known: LedgerRow): boolean =>
  sent.kind === "update" &&
  state.status === "terminated" &&
  known.variant === undefined &&
  state.counts.heals === 0;

function heal(
  state: TakenState,
  row: LedgerRow,
  reason: "exists" | "missing",
  { now, retry }: SettleContext,
): Settled {
  if (state.counts.heals >= MAX_HEALS) {
    const rule = `the service says both that the relation exists (409) and that it does not (404), ${state.counts.heals} times`;
    return giveUp("contradiction", { row: "before", finished: true }, rule, "the crmCode");
  }
  const retryAt =
    state.counts.heals < HEALS_AT_ONCE
      ? undefined
      : now + retryDelay(state.counts.heals, retry.baseMs, retry.random);
  const settlement = { row, finished: false, counts: ["heals"], retryAt } as const;
  return { settlement, end: { finished: false, reason } };
}

/** The fields that a client may send back (spec); the service may return more. */
function ownFields(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return { ...body };
  return Object.fromEntries(
    Object.entries(body).filter(
      ([field, value]) =>
        FIELDS_OF[variant].has(field) &&
        value !== null &&
        // The service may have let a required text be empty: a PUT must have the field.
        (value !== "" || REQUIRED_OF[variant].has(field)),
    ),
  );
}
