/**
 * What intake does with one record of an event: fetch it first, ignore it, reject it or stage it.
 * Pure; `crmsync preview` shows the same plan.
 */
import { splitSubject, type CrmEvent } from "../event/crm-event.ts";
import {
  variantOf,
  type BusinessRelation,
  type Variant,
} from "../service-spec/business-relation.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { bodyOf } from "./decide.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { IgnoreReason, Mapped, WantedStatus } from "./mapped.ts";
import type { Problem } from "../event/problem.ts";
import { validatePayload } from "./validate.ts";

/** One record that an event is about: its own subject, or one that was merged into it. */
export interface RecordChange {
  readonly event: {
    readonly type: string;
    readonly subject: string;
    readonly data?: Pick<NonNullable<CrmEvent["data"]>, "record" | "fetch"> | undefined;
  };
  readonly subject: string;
  /** What a later event of the record demands, which brought no fields. */
  readonly status?: Exclude<WantedStatus, "mapped"> | undefined;
}

export type Plan =
  | {
      readonly kind: "ignore";
      readonly reason: IgnoreReason;
      /** Points to the rules that have decided it (mapping/whens.ts). */
      readonly whens?: string | undefined;
      readonly crmCode: string | undefined;
    }
  | {
      readonly kind: "reject";
      readonly reason: "unmappable" | "invalid";
      readonly crmCode: string | undefined;
      readonly problems: readonly Problem[];
    }
  | {
      readonly kind: "stage";
      readonly crmCode: string;
      readonly status: WantedStatus;
      /** Undefined when the event brought no usable record: its crmCode and status are enough. */
      readonly payload: BusinessRelation | undefined;
      readonly fingerprint: string | undefined;
      /** Fields of the payload that the CRM has, and that were not understood. */
      readonly notUnderstood: readonly string[];
      readonly variant: Variant | undefined;
      /** Set when the mapping ignores the record by now, and its relation ends for that. */
      readonly leaves?: IgnoreReason;
      readonly whens?: string | undefined;
    };

/**
 * The CRM from which the record must be fetched first; undefined when the event needs no fetch.
 * @param objects that the mapping has rules for; empty when it does not know. Records of others are
 *   ignored or rejected, whatever they contain.
 */
export function crmToFetchFrom(
  { event, subject }: RecordChange,
  objects: readonly string[],
): string | undefined {
  const { record, fetch } = event.data ?? {};
  if (record !== undefined || subject !== event.subject) return undefined;
  return objects.length === 0 || hasRule(subject, objects) ? fetch : undefined;
}

export function hasRule(subject: string, objects: readonly string[]): boolean {
  const object = splitSubject(subject).object.toLowerCase();
  return objects.some((one) => one.toLowerCase() === object);
}

/**
 * Whether the crmCode was made without the record, from the subject alone: the record may have led to another one.
 * @param hasRecord whether the event has brought it
 */
export const isGuessed = (mapped: Mapped, hasRecord: boolean): boolean =>
  mapped.kind === "mapped" ? mapped.candidate === undefined : !hasRecord;

/** @param known the crmCode to which the record led before; undefined: not known */
export const withKnownCode = (mapped: Mapped, known: string | undefined): Mapped =>
  known === undefined ? mapped : { ...mapped, crmCode: known };

export function planChange(
  change: RecordChange,
  mapped: Mapped,
  lists: TenantLists,
  fingerprintOf: FingerprintOf,
): Plan {
  if (mapped.kind === "ignored") {
    const { crmCode } = mapped;
    // The record is ignored for its fields. A later event without fields ends its relation all the same.
    if (change.status === "terminated" && crmCode !== undefined) return termination(crmCode);
    return planIgnored(mapped);
  }
  const { crmCode } = mapped;
  const terminates = isTermination(change);
  const problems = mapped.kind === "unmappable" ? mapped.problems : [];
  if (crmCode === undefined || (mapped.kind === "unmappable" && !terminates)) {
    return { kind: "reject", reason: "unmappable", crmCode, problems };
  }
  const candidate = mapped.kind === "mapped" ? mapped.candidate : undefined;
  const validated = candidate && validatePayload(candidate, lists);
  // The fields of a deleted record may be invalid: to terminate it, the service's own are enough.
  if (validated?.ok === false && !terminates) {
    return { kind: "reject", reason: "invalid", crmCode, problems: validated.problems };
  }
  const payload = validated?.ok === true ? validated.payload : undefined;
  const status = statusOf(change, payload !== undefined);
  const unknown = (payload && mapped.kind === "mapped" ? mapped.notUnderstood : undefined) ?? [];
  const notUnderstood = saysStatus(change.event, status)
    ? unknown.filter((f) => f !== "relationStatus")
    : unknown;
  return {
    kind: "stage",
    crmCode,
    status,
    payload,
    fingerprint: payload && fingerprintOf(bodyOf(payload, status), notUnderstood),
    notUnderstood,
    variant: payload && variantOf(payload.type),
  };
}

/** A record that left its rule's `when` ends as a terminated relation, if the mapping says so. */
function planIgnored({
  reason,
  crmCode,
  onLeave,
  whens,
}: Extract<Mapped, { kind: "ignored" }>): Plan {
  if (onLeave !== "terminate" || crmCode === undefined)
    return { kind: "ignore", reason, crmCode, whens };
  return { ...termination(crmCode), leaves: reason, whens };
}

const termination = (crmCode: string): Extract<Plan, { kind: "stage" }> => ({
  kind: "stage",
  crmCode,
  status: "terminated",
  payload: undefined,
  fingerprint: undefined,
  notUnderstood: [],
  variant: undefined,
});

/** A record that was deleted, or merged into another one, ends as a terminated relation. */
const isTermination = ({ event, status, subject }: RecordChange): boolean =>
  status === undefined
    ? event.type === "crm.record.deleted" || subject !== event.subject
    : status === "terminated";

/** What the event itself says of the status counts, whatever the service has there. */
export const saysStatus = ({ type }: RecordChange["event"], status: WantedStatus): boolean =>
  status !== "mapped" || type === "crm.record.restored";

/** A restored record without fields only gets its status back. */
export function statusOf(change: RecordChange, hasFields: boolean): WantedStatus {
  const { event, status } = change;
  if (status !== undefined) return status;
  if (isTermination(change)) return "terminated";
  return event.type === "crm.record.restored" && !hasFields ? "active" : "mapped";
}
