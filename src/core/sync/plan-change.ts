/**
 * The third step of THE PATH: what intake does with one record of an event, ignore, reject or stage it.
 * Pure; `crmsync preview` shows the same plan.
 */
import {
  variantOf,
  type BusinessRelation,
  type Variant,
} from "../service-spec/business-relation.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { bodyOf } from "./decide.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { IgnoreReason, Mapped, RecordChange, WantedStatus } from "./mapped.ts";
import type { Problem } from "../event/problem.ts";
import { validatePayload } from "./validate.ts";

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

export function planChange(
  change: RecordChange,
  mapped: Mapped,
  lists: TenantLists,
  fingerprintOf: FingerprintOf,
): Plan {
  const { crmCode } = mapped;
  if (change.unclear !== undefined) {
    const { field, kind, rule } = change.unclear;
    return { kind: "reject", reason: "unmappable", crmCode, problems: [{ field, rule, kind }] };
  }
  if (mapped.kind === "ignored") {
    const { onLeave, reason, whens } = mapped;
    if (crmCode === undefined) return { kind: "ignore", reason, crmCode, whens };
    // The record is ignored for its fields. A later event without fields ends its relation all the same.
    if (change.status === "terminated") return termination(crmCode);
    return onLeave === "terminate"
      ? { ...termination(crmCode), leaves: reason, whens }
      : { kind: "ignore", reason, crmCode, whens };
  }
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
