import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { CrmRecord, EventContext, MapOptions, Mapping, MappingResult } from "./mapping.ts";

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
  const mapped = await mapping.map(context, record, lists, options);
  const hasNoKey = mapped.kind === "unmappable" && mapped.crmCode === undefined;
  if (!hasNoKey || record === undefined || context.type !== "crm.record.deleted") return mapped;
  const withoutRecord = await mapping.map(context, undefined, lists, options);
  return withoutRecord.kind === "mapped" ? withoutRecord : mapped;
}
