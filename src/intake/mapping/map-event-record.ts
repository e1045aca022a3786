import { splitSubject, type CrmEvent } from "../../core/event/crm-event.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import type { EventRules } from "../../core/sync/check-event.ts";
import { asDeletion } from "./gone.ts";
import { NEVER_KEPT } from "./fields.ts";
import type {
  CrmRecord,
  EventContext,
  MapOptions,
  Mapping,
  MappingResult,
  MappingWarning,
  WarningReason,
} from "./mapping.ts";
import { recordIds } from "./record-ids.ts";

/** What the mapping says of events, beside the fields of their records. */
export const eventRules = (mapping: Pick<Mapping, "gone" | "ids">) =>
  ({
    ids: recordIds(mapping),
    asDeletion: (event: CrmEvent, now: number) => asDeletion(event, mapping.gone, now),
  }) satisfies EventRules;

/** Warnings about a value that was sent, or has no place at the service: nothing is missing there. */
const NOTHING_LOST: ReadonlySet<WarningReason> = new Set([
  "unknown_field",
  "kept_as_is",
  "suspicious",
]);

/** Warnings about values that the tenant's lists do not allow. */
const BY_LISTS: ReadonlySet<WarningReason> = new Set([
  "not_in_tenant_list",
  "no_longer_listed",
  "too_many",
]);

/** Whether the mapping could not use a value, for a reason that lies in the value itself. */
export const isUnusable = (reason: WarningReason): boolean =>
  !NOTHING_LOST.has(reason) &&
  !BY_LISTS.has(reason) &&
  reason !== "not_carried" &&
  reason !== "type_changed";

/**
 * Maps the record of one event. What is left of a deleted record may be unusable: its crmCode is
 * then made from the event alone.
 */
export async function mapEventRecord(
  mapping: Mapping,
  context: EventContext,
  record: CrmRecord | undefined,
  lists: TenantLists,
  options: MapOptions = {},
): Promise<MappingResult> {
  const { changed = {}, ...own } = options;
  const made = await mapping.map(context, record, lists, own);
  const object = context.object.toLowerCase();
  const mapped = withLeftOut(
    withChanged(made, Object.hasOwn(changed, object) ? changed[object] : []),
  );
  const hasNoKey = mapped.kind === "unmappable" && mapped.crmCode === undefined;
  if (!hasNoKey || record === undefined || context.type !== "crm.record.deleted") return mapped;
  const withoutRecord = await mapping.map(context, undefined, lists, own);
  return withoutRecord.kind === "mapped" ? withoutRecord : mapped;
}

/** @param subject whose record: the event's own, or one that was merged into it and comes without one. */
export function mapEvent(
  mapping: Mapping,
  { data, source, subject: own, type }: CrmEvent,
  subject: string,
  lists: TenantLists,
  options?: MapOptions,
): Promise<MappingResult> {
  const context = { type, source, subject, ...splitSubject(subject), partial: data?.partial };
  const record = subject === own ? data?.record : undefined;
  return mapEventRecord(mapping, context, record, lists, options);
}

/** A value of a field whose type has changed may mean something else than before. */
function withChanged(mapped: MappingResult, changed: readonly string[] = []): MappingResult {
  if (mapped.kind !== "mapped" || changed.length === 0) return mapped;
  const { candidate = {}, warnings } = mapped;
  const kept = changed
    .filter((field) => candidate[field] !== undefined && !NEVER_KEPT.has(field))
    .map((field) => ({ field, reason: "type_changed", kind: "a value of another type" }) as const);
  return { ...mapped, warnings: [...warnings, ...kept] };
}

/**
 * What the record has in a field, and the mapping could not use, or what it did not bring, is not "empty": the service
 * keeps its value. So it does where only some items can be sent, and it may have the others from the time when the tenant
 * allowed them.
 */
function withLeftOut(mapped: MappingResult): MappingResult {
  if (mapped.kind !== "mapped" || mapped.candidate === undefined) return mapped;
  const { candidate, warnings } = mapped;
  const fieldsOf = (isMeant: (warning: MappingWarning) => boolean) => [
    ...new Set(warnings.filter(isMeant).map(({ field }) => field)),
  ];
  const notUnderstood = fieldsOf(
    ({ field, reason }) =>
      reason === "no_longer_listed" ||
      reason === "type_changed" ||
      reason === "not_carried" ||
      (candidate[field] === undefined && !NOTHING_LOST.has(reason)),
  );
  const leftOutByLists = fieldsOf(({ reason }) => BY_LISTS.has(reason));
  const sentWithout = fieldsOf(({ reason }) => BY_LISTS.has(reason) || isUnusable(reason));
  return {
    ...mapped,
    ...(notUnderstood.length > 0 && { notUnderstood }),
    ...(leftOutByLists.length > 0 && { leftOutByLists }),
    ...(sentWithout.length > 0 && { sentWithout }),
  };
}
