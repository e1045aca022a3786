import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type {
  CrmRecord,
  EventContext,
  MapOptions,
  Mapping,
  MappingResult,
  WarningReason,
} from "./mapping.ts";

/** Warnings about a value that was sent, or has no place at the service: nothing is missing there. */
const NOTHING_LOST: ReadonlySet<WarningReason> = new Set(["unknown_field", "kept_as_is"]);

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
  const mapped = withNotUnderstood(await mapping.map(context, record, lists, options));
  const hasNoKey = mapped.kind === "unmappable" && mapped.crmCode === undefined;
  if (!hasNoKey || record === undefined || context.type !== "crm.record.deleted") return mapped;
  const withoutRecord = await mapping.map(context, undefined, lists, options);
  return withoutRecord.kind === "mapped" ? withoutRecord : mapped;
}

/** What the mapping could not use, or the record did not bring, is not "empty": the service keeps its value. */
function withNotUnderstood(mapped: MappingResult): MappingResult {
  if (mapped.kind !== "mapped" || mapped.candidate === undefined) return mapped;
  const { candidate } = mapped;
  const fields = mapped.warnings.flatMap(({ field, reason }) =>
    reason === "not_carried" || (candidate[field] === undefined && !NOTHING_LOST.has(reason))
      ? [field]
      : [],
  );
  return fields.length === 0 ? mapped : { ...mapped, notUnderstood: [...new Set(fields)] };
}
