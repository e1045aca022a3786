/**
 * What one taken state needs, decided from the ledger's row alone. Staging settles what needs no request
 * (stage.ts) by the same row.
 * Source: spec, "Endpoints" (404 on PUT means create, 409 on POST means update).
 */
import { variantOf } from "../service-spec/business-relation.ts";
import { agreesWithRow, type FingerprintOf } from "./fingerprint.ts";
import { carryOver, keepsWith, keptFieldsOf, NO_KEEPS, type Keeps } from "./keeps.ts";
import type { LedgerRow } from "./ledger-row.ts";
import type { ConfirmWhy } from "./record.ts";
import type { WantedStatus } from "./mapped.ts";
import type { Problem } from "../event/problem.ts";

/** What the ledger knows of the record. */
export type Known = Omit<LedgerRow, "openUntil" | "orders" | "pace" | "provedAt" | "writer">;

/** What the relation must become. `payload` is absent when the event brought no record. */
export interface Wanted {
  readonly payload: Readonly<Record<string, unknown>> | undefined;
  readonly status: WantedStatus;
  /** Fields that were not understood: kept for this change. */
  readonly notUnderstood?: readonly string[];
  /** The relation must be read first. */
  readonly confirm?: ConfirmWhy | undefined;
  /** What the service has in the kept fields, read for this run; undefined: not read. */
  readonly kept?: Readonly<Record<string, unknown>> | undefined;
}

export type Decision =
  | { readonly kind: "create" | "update"; readonly body: Readonly<Record<string, unknown>> }
  /**
   * Read the relation first: a PUT must carry all of its fields. `into`: what is to be sent, except
   * for the kept fields; absent: only the status of what was read changes.
   */
  | { readonly kind: "fetch"; readonly into?: Readonly<Record<string, unknown>> }
  | { readonly kind: "skip"; readonly why: "unchanged" | "nothing_to_terminate" }
  | { readonly kind: "reject"; readonly why: "variant_changed" | "nothing_to_restore" };

/** What needs one request. */
export type Sendable = Extract<Decision, { kind: "create" | "update" | "fetch" }>;

const NOTHING_TO_TERMINATE: Decision = { kind: "skip", why: "nothing_to_terminate" };

export function decide(
  wanted: Wanted,
  known: Known,
  fingerprintOf: FingerprintOf,
  keeps: Keeps = NO_KEEPS,
): Decision {
  if (wanted.confirm === "late" || wanted.confirm === "stored") return { kind: "fetch" };
  const decision = decideByRow(wanted, known, fingerprintOf, keeps);
  // What was decided is looked for first: it may have been carried out.
  return wanted.confirm !== undefined && (decision.kind === "create" || decision.kind === "update")
    ? { kind: "fetch", into: decision.body }
    : decision;
}

function decideByRow(
  wanted: Wanted,
  known: Known,
  fingerprintOf: FingerprintOf,
  keeps: Keeps,
): Decision {
  // A list alone is weak evidence: a deletion, and what cannot be sent, ask for the relation first.
  const absent = known.exists === false && !known.uncertain && known.byList !== true;
  const present = known.exists === true && !known.uncertain;
  const ended = present && known.terminated && wanted.status === "terminated";
  if (absent && wanted.status === "terminated") return NOTHING_TO_TERMINATE;
  if (wanted.payload === undefined) {
    if (ended) return NOTHING_TO_TERMINATE;
    if (wanted.status === "active") {
      if (absent) return { kind: "reject", why: "nothing_to_restore" };
      if (present && !known.terminated) return { kind: "skip", why: "unchanged" };
    }
    return { kind: "fetch" };
  }
  const body = bodyOf(wanted.payload, wanted.status);
  const variant = variantOf(body["type"]);
  const { notUnderstood = [] } = wanted;
  const isOther = known.exists === true && known.variant !== undefined && known.variant !== variant;
  if (isOther && ended) return NOTHING_TO_TERMINATE;
  // A termination needs no fields of the record: the service's own are enough.
  if (wanted.status === "terminated" && (isOther || wanted.confirm === "variant")) {
    return { kind: "fetch" };
  }
  if (isOther) return { kind: "reject", why: "variant_changed" };
  if (present && agreesWithRow(fingerprintOf(body, notUnderstood), known)) {
    return ended ? NOTHING_TO_TERMINATE : { kind: "skip", why: "unchanged" };
  }
  // A termination never creates: a relation that turns out to be absent needs none.
  const update = known.exists === true || wanted.status === "terminated";
  // Other people or programs may have filled these fields since. So the relation is read, whatever the row says.
  const fields = keptFieldsOf(variant, keepsWith(keeps, variant, notUnderstood));
  if (!update) return { kind: "create", body };
  if (fields === undefined) return { kind: "update", body };
  if (wanted.kept === undefined) return { kind: "fetch", into: body };
  return { kind: "update", body: carryOver(body, wanted.kept, fields) };
}

/** The payload with the status that an event forces on it. */
export function bodyOf(
  payload: Readonly<Record<string, unknown>>,
  status: WantedStatus,
): Readonly<Record<string, unknown>> {
  return status === "mapped" ? payload : { ...payload, relationStatus: status };
}

/** The problems of changes that decide() rejects before a request is spent. */
export const REJECTIONS: Record<"variant_changed" | "nothing_to_restore", readonly Problem[]> = {
  variant_changed: [
    {
      field: "type",
      rule: "must stay a person or stay a company, as the service has it under this crmCode",
      kind: "the other kind",
    },
  ],
  nothing_to_restore: [
    {
      field: "data.record",
      rule: "is required: the service has no relation under this crmCode to restore",
      kind: "nothing",
    },
  ],
};

/**
 * Which requests the guard over terminations must admit (src/core/state/termination-guard.ts), whichever
 * way the change came: a deletion, a merge, a record that left its rule, or a mapped status.
 * When a request terminates a relation: `now`, or `next`, once the relation was read. Undefined: it
 * does not, or the relation is known to be terminated.
 */
export function terminationIn(
  request: Sendable,
  status: WantedStatus,
  known: Known,
): "now" | "next" | undefined {
  if (known.exists === true && !known.uncertain && known.terminated) return undefined;
  switch (request.kind) {
    case "update":
      return request.body["relationStatus"] === "terminated" ? "now" : undefined;
    case "fetch":
      return status === "terminated" || request.into?.["relationStatus"] === "terminated"
        ? "next"
        : undefined;
    // A new relation ends nothing.
    case "create":
      return undefined;
  }
}
