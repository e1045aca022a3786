/**
 * What each reply of the service leads to: the one table from a reply to its outcome.
 * Source: spec, "Errors" and the responses of each endpoint.
 */
import { FIELDS_OF, REQUIRED_OF, variantOf } from "../service-spec/business-relation.ts";
import type { Sendable } from "./decide.ts";
import { agrees } from "./fingerprint.ts";
import { keptIn } from "./keeps.ts";
import { rowOf, type LedgerRow } from "./ledger-row.ts";
import { retryDelay } from "./retry-delay.ts";
import type { ServiceReply } from "./service-reply.ts";
import { settleUnavailable } from "./settle-unavailable.ts";
import { AGAIN, COMPLETE, giveUp, stillOpen, type SettleContext, type Settled } from "./settled.ts";
import { bringsFields, type Settlement, type TakenState } from "./staged-state.ts";
import { withoutUnlisted } from "./tenant-problems.ts";

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
      return done(reply.kind, body, state, context);
    }
    case "accepted":
      return {
        settlement: { row: "uncertain", finished: false, doubt: "accepted" },
        end: { next: AGAIN, reason: "accepted" },
      };
    case "found": {
      if (sent.kind === "check") return checked(reply.body, sent.body, state, known, context);
      return fetched(reply.body, sent, state, known, context);
    }
    case "exists": {
      const row = { ...proven, exists: true, fingerprint: undefined, terminated: false };
      return heal(state, row, "exists", context);
    }
    case "missing": {
      if (sent.kind === "check") return unconfirmed(state, "uncertain", context);
      // For a relation that the ledger does not know, one 404 is no proof either.
      const mayExist = known.exists === true || state.status === "terminated";
      if (known.exists !== false && mayExist && state.doubt !== "missing") return askAgain(context);
      const row = { ...proven, exists: false, fingerprint: undefined, terminated: false };
      if (state.status === "terminated") {
        return {
          settlement: { row: { ...row, ...settledBy(state) }, finished: true },
          end: { next: COMPLETE, outcome: "skipped", reason: "nothing_to_terminate" },
        };
      }
      return heal(state, row, "missing", context);
    }
    case "rejected": {
      if (mayBeOtherVariant(sent, state, known)) {
        return {
          settlement: { row: "before", finished: false, counts: ["heals"], doubt: "variant" },
          end: { next: AGAIN, reason: "other_variant" },
        };
      }
      const rule = `the service answered ${reply.status}: ${reply.error}${ownText(state)}${carriedOver(sent, state)}`;
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
      return settleUnavailable(reply, state, context);
  }
}

/** The service has the wanted body. */
function done(
  outcome: "created" | "updated",
  body: Readonly<Record<string, unknown>>,
  state: TakenState,
  { fingerprintOf, now }: SettleContext,
): Settled {
  return {
    settlement: {
      row: { ...rowOf(body, now, fingerprintOf), ...settledBy(state) },
      finished: true,
    },
    end: { next: COMPLETE, outcome },
  };
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
  const row = { ...rowOf(found, now, fingerprintOf), ...settledOf(known) };
  if (into !== undefined && agrees(fingerprintOf(into), row.fingerprint)) {
    // An earlier write, which had no answer, was applied.
    if (known.uncertain) {
      return done(known.exists === true ? "updated" : "created", found, state, context);
    }
    const reason = state.status === "terminated" ? "nothing_to_terminate" : "unchanged";
    return {
      settlement: { row: { ...row, ...settledBy(state) }, finished: true },
      end: { next: COMPLETE, outcome: "skipped", reason },
    };
  }
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
    end: { next: AGAIN, reason: "fetched" },
  };
}

/** The relation was read after a write that was accepted without proof. */
function checked(
  found: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
  state: TakenState,
  known: LedgerRow,
  context: SettleContext,
): Settled {
  const { fingerprintOf, now } = context;
  if (agrees(fingerprintOf(wanted), fingerprintOf(found))) {
    return done(known.exists === true ? "updated" : "created", found, state, context);
  }
  const row = { ...rowOf(found, now, fingerprintOf), ...settledOf(known) };
  return unconfirmed(state, row, context);
}

/** The write is sent again: reading did not show what the service had accepted. */
function unconfirmed(
  state: TakenState,
  row: Settlement["row"],
  { now, retry }: SettleContext,
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
function askAgain({ now, retry }: SettleContext): Settled {
  const at = now + retryDelay(1, retry.baseMs, retry.random);
  return {
    settlement: { row: "before", finished: false, doubt: "missing" },
    end: { next: { kind: "later", at }, reason: "missing_once" },
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
  return `; it carried what the service itself has in ${fields.join(", ")} (the mapping's \`owned: false\` or \`fill: empty\`): if one of these is the reason, correct it at the service`;
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
  { now, retry }: SettleContext,
): Settled {
  if (state.heals >= MAX_HEALS) {
    const rule = `the service says both that the relation exists (409) and that it does not (404), ${state.heals} times`;
    return giveUp("contradiction", { row: "before", finished: true }, rule, "the crmCode");
  }
  const settlement = { row, finished: false, counts: ["heals"] } as const;
  const next =
    state.heals < HEALS_AT_ONCE
      ? AGAIN
      : ({ kind: "later", at: now + retryDelay(state.heals, retry.baseMs, retry.random) } as const);
  return { settlement, end: { next, reason } };
}

type EventsSettled = Pick<LedgerRow, "watermark" | "earlierFields">;

/** Which events the row of a finished state has settled. */
export const settledBy = ({ order, earlierFields }: TakenState): EventsSettled => ({
  watermark: order,
  earlierFields,
});

const settledOf = ({ watermark, earlierFields }: LedgerRow): EventsSettled => ({
  watermark,
  earlierFields,
});

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
