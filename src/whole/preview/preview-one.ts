/** What would become of one record: from its mapping to the request that it would cost. */
import { mapEventRecord } from "../../intake/mapping/map-event-record.ts";
import type { Mapping, MappingWarning } from "../../intake/mapping/mapping.ts";
import { leftOutText } from "../../intake/mapping/whens.ts";
import { variantOf } from "../../core/service-spec/business-relation.ts";
import { DEFAULT_TENANT_LISTS, type TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { bodyOf, decide, type Decision, type Wanted, REJECTIONS } from "../../core/sync/decide.ts";
import { fingerprintOf, fingerprintWith, type FingerprintOf } from "../../core/sync/fingerprint.ts";
import { carryOver, keepsWith, keptFieldsOf, keptIn, type Keeps } from "../../core/sync/keeps.ts";
import { NO_ORDERS, rowWithoutProof, type LedgerRow } from "../../core/sync/ledger-row.ts";
import { isSuperseded, type ProvenRecord } from "../../core/sync/known.ts";
import {
  crmToFetchFrom,
  isGuessed,
  isPartOnly,
  withKnownCode,
} from "../../core/sync/map-change.ts";
import { planChange, type Plan } from "../../core/sync/plan-change.ts";
import { kindOf, type Problem } from "../../core/event/problem.ts";
import type { WantedStatus } from "../../core/sync/mapped.ts";
import { recordIds } from "../../intake/mapping/record-ids.ts";
import type { PreviewInput } from "./read-records.ts";

export type Body = Readonly<Record<string, unknown>>;

/** What is known of the service without a request, and how to make one. */
export interface ServiceView {
  readonly lists: TenantLists;
  readonly fingerprintOf: FingerprintOf;
  /** Undefined: not known, because no Redis could be reached. */
  known(crmCode: string): Promise<ProvenRecord | undefined>;
  /** The crmCode to which a record of the CRM led before. */
  codeOf(subject: string): Promise<string | undefined>;
  /** Reads the relation from the service; undefined where no request may be spent. */
  readonly ask: ((crmCode: string) => Promise<Body | undefined>) | undefined;
}

/** Without a Redis: what the service has is not known. */
export const unknownService = (
  keeps: Keeps,
  lists: TenantLists = DEFAULT_TENANT_LISTS,
): ServiceView => ({
  lists,
  fingerprintOf: fingerprintWith(undefined, keeps),
  known: async () => undefined,
  codeOf: async () => undefined,
  ask: undefined,
});

export interface FieldChange {
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface Preview {
  readonly subject: string;
  /** `to fetch`: the event brings no record; it would be fetched from the CRM first. */
  readonly result: "passes" | "ignored" | "to fetch" | "dead letter";
  readonly crmCode?: string | undefined;
  /** Of the record in the CRM, by `owner` of the mapping. */
  readonly owner?: string | undefined;
  readonly payload?: Body | undefined;
  readonly warnings: readonly MappingWarning[];
  readonly problems: readonly Problem[];
  /** The status that the relation would have at the service; `mapped`: the payload's own. */
  readonly status?: WantedStatus | undefined;
  /** What would be sent; undefined when nothing would, or it is not known. */
  readonly decision?: Decision["kind"] | undefined;
  /** Set when the mapping ignores the record by now, and its relation would end for that. */
  readonly leaves?: string | undefined;
  /** Why nothing would be sent; `not_listed`: the daemon has not listed the service yet. */
  readonly why?: string | undefined;
  /** Fields that an update carries over from the service: others maintain them, or ours was not understood. */
  readonly kept?: readonly string[] | undefined;
  /** Of an update, when the service was asked. */
  readonly changes?: readonly FieldChange[] | undefined;
}

export async function previewOne(
  input: PreviewInput,
  mapping: Mapping,
  view: ServiceView,
): Promise<Preview> {
  const { context, record, fetch, mergedInto } = input;
  const rule = recordIds(mapping).problemOf(context.subject, record);
  if (rule !== undefined) {
    const problems = [{ field: "id", rule, kind: kindOf(context.recordId) }];
    return { ...NOTHING, subject: context.subject, result: "dead letter", problems };
  }
  const change = {
    event: {
      type: context.type,
      subject: mergedInto ?? context.subject,
      data: { record: record && { ...record }, fetch },
    },
    subject: context.subject,
  };
  const made = await mapEventRecord(mapping, context, record, view.lists, { explain: true });
  const warnings = made.kind === "ignored" ? [] : made.warnings;
  const mapped = isGuessed(made, record !== undefined)
    ? withKnownCode(made, await view.codeOf(context.subject))
    : made;
  const { crmCode } = mapped;
  const owner = mapped.kind === "ignored" ? undefined : mapped.owner;
  const preview: Preview = { ...NOTHING, subject: context.subject, crmCode, owner, warnings };
  if (isPartOnly(context.subject, mapping)) {
    return { ...preview, result: "to fetch", why: "the record to which it belongs", warnings: [] };
  }
  const crm = crmToFetchFrom(change, mapping.objects);
  if (crm !== undefined) return { ...preview, result: "to fetch", why: crm };
  const plan = planChange(change, mapped, view.lists, view.fingerprintOf);
  switch (plan.kind) {
    case "ignore":
      return { ...preview, result: "ignored", why: leftOutText(plan, context.object, mapping) };
    case "reject": {
      const candidate = mapped.kind === "mapped" ? mapped.candidate : undefined;
      const { problems } = plan;
      return { ...preview, result: "dead letter", payload: candidate, problems };
    }
    case "stage":
      return {
        ...preview,
        leaves: leavesText(plan, context.object, mapping),
        ...(await previewPlan(plan, input.order, mapping.keeps, view)),
      };
  }
}

const leavesText = (
  { leaves: reason, whens }: Extract<Plan, { kind: "stage" }>,
  object: string,
  mapping: Mapping,
): string | undefined => reason && leftOutText({ reason, whens }, object, mapping);

const NOTHING = { result: "passes", warnings: [], problems: [] } as const;

async function previewPlan(
  plan: Extract<Plan, { kind: "stage" }>,
  order: string | undefined,
  keeps: Keeps,
  view: ServiceView,
): Promise<Partial<Preview>> {
  const { crmCode, leaves, notUnderstood, payload, variant } = plan;
  const known = await view.known(crmCode);
  const { row: found = rowWithoutProof(false), newest = NO_ORDERS } = known ?? {};
  // As staging does.
  const row = leaves === undefined ? found : { ...found, byList: false };
  const orders = order && { status: order, fields: payload === undefined ? "" : order };
  // A newer event without fields decides the status.
  const status = order && order < row.orders.status ? row.orders.is : plan.status;
  const shown = { payload: payload && bodyOf(payload, status), status };
  if (orders && isSuperseded(orders, newest)) {
    return { ...shown, decision: "skip", why: "superseded" };
  }
  if (known === undefined && view.ask === undefined) return shown;
  const wanted = { payload, status, notUnderstood };
  const kept = keepsWith(keeps, variant, notUnderstood);
  const decided = await decideFor(crmCode, wanted, row, kept, view);
  return { ...shown, ...decided, result: decided.decision === "reject" ? "dead letter" : "passes" };
}

async function decideFor(
  crmCode: string,
  wanted: Wanted,
  row: LedgerRow,
  keeps: Keeps,
  view: ServiceView,
): Promise<Partial<Preview>> {
  const decision = decide(wanted, row, view.fingerprintOf, keeps);
  switch (decision.kind) {
    case "reject":
      return { decision: "reject", why: decision.why, problems: REJECTIONS[decision.why] };
    case "skip":
      return { decision: "skip", why: decision.why };
    case "fetch": {
      const { into } = decision;
      if (into === undefined) return { decision: "fetch" };
      if (view.ask !== undefined) return compareWithService(into, keeps, await view.ask(crmCode));
      const kept = keptFieldsOf(variantOf(into["type"]), keeps) ?? {};
      return { decision: "fetch", kept: Object.keys(kept) };
    }
    case "create":
    case "update":
      return view.ask === undefined
        ? { decision: decision.kind, why: row.exists === undefined ? "not_listed" : undefined }
        : compareWithService(decision.body, keeps, await view.ask(crmCode));
  }
}

function compareWithService(
  wanted: Body,
  keeps: Keeps,
  existing: Body | undefined,
): Partial<Preview> {
  if (existing === undefined) return { decision: "create" };
  const fields = keptFieldsOf(variantOf(wanted["type"]), keeps);
  const kept = keptIn(existing, wanted, keeps);
  const sent = fields && kept ? carryOver(wanted, kept, fields) : wanted;
  if (fingerprintOf(existing) === fingerprintOf(sent)) {
    return { decision: "skip", why: "unchanged" };
  }
  const changes = changesBetween(existing, sent);
  return fields === undefined
    ? { decision: "update", changes }
    : { decision: "fetch", kept: Object.keys(fields), changes };
}

export function changesBetween(before: Body, after: Body): FieldChange[] {
  const fields = [...new Set([...Object.keys(after), ...Object.keys(before)])];
  return fields
    .filter((field) => comparable(before[field]) !== comparable(after[field]))
    .map((field) => ({ field, before: before[field], after: after[field] }));
}

/** Lists are compared without their order. */
const comparable = (value: unknown): string | undefined =>
  JSON.stringify(Array.isArray(value) ? (value as unknown[]).map(String).toSorted() : value);
