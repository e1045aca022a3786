/** A mapping that is a TypeScript module, for cases that expressions cannot handle. */
import { crmCodeSchema, FIELDS_OF, variantOf } from "../../core/service-spec/business-relation.ts";
import { kindOf, problemsOf } from "../../core/event/problem.ts";
import { watchAbsent } from "./absent-fields.ts";
import type { CompiledField } from "./compile-mapping.ts";
import { FIELD_NAMES, traitsOf } from "./fields.ts";
import { mapFields, unmappable, type MapFieldsOptions } from "./map-fields.ts";
import type { MapRecord, MappedRecord } from "./map-module.ts";
import { type CrmRecord, type EventContext, type MappingResult, warningOf } from "./mapping.ts";
import { nameOfThrown } from "./module-error.ts";

export async function mapByModule(
  mapping: MapRecord,
  event: EventContext,
  record: CrmRecord | undefined,
  options: MapFieldsOptions = {},
  reads: readonly string[] = [],
): Promise<MappingResult> {
  const isPartial = event.partial === true && record !== undefined;
  const absentRead = isPartial ? watchAbsent(record, record, reads) : undefined;
  let mapped: MappedRecord | undefined;
  try {
    mapped = plain(await mapping(record, event));
  } catch (error) {
    const rule = `must be one that the module can map; it threw ${nameOfThrown(error)}`;
    return unmappable(undefined, [{ field: "", rule, kind: kindOf(record) }]);
  }
  if (mapped === undefined) return { kind: "ignored", reason: "module" };
  const key = crmCodeSchema.safeParse(mapped.crmCode);
  if (!key.success) {
    const rule = problemsOf(key.error, mapped.crmCode)[0]?.rule ?? "is required";
    return unmappable(undefined, [{ field: "crmCode", rule, kind: kindOf(mapped.crmCode) }]);
  }
  const fields: Readonly<Record<string, unknown>> = mapped.fields ?? {};
  const known = ["type", ...FIELD_NAMES.filter((name) => name !== "type")];
  const compiled = known
    .filter((name) => fields[name] !== undefined)
    .map((name) => fieldWithValue(name, fields[name]));
  const none = { watch() {}, absentRead: () => [], lacks: () => false };
  const result = await mapFields(compiled, key.data, { event, record, options, ...none });
  if (result.kind !== "mapped") return result;
  const absent = absentRead?.() ?? [];
  // Which of its fields a module makes of what it has read, only the module knows.
  const { candidate = {} } = result;
  const lost = FIELDS_OF[variantOf(candidate["type"]) ?? "Person"];
  const lacking =
    absent.length === 0 ? [] : [...lost].filter((name) => candidate[name] === undefined);
  const others = Object.keys(fields).filter((name) => name !== "crmCode" && !known.includes(name));
  const warnings = [
    ...others.map((name) => warningOf("other", "unknown_field", name, options)),
    ...lacking.map((name) => warningOf(name, "not_carried", absent.join(", "), options)),
  ];
  return { ...result, warnings: [...result.warnings, ...warnings] };
}

/** Reads what the module returns while its errors are its own: it may have getters. */
const plain = (mapped: MappedRecord | undefined | null): MappedRecord | undefined =>
  mapped === undefined || mapped === null
    ? undefined
    : { crmCode: mapped.crmCode, fields: { ...mapped.fields } };

/** A field with the module's value; it is then handled like a field of a mapping file. */
function fieldWithValue(name: string, value: unknown): CompiledField {
  const { form, values } = traitsOf(name);
  return {
    name,
    sources: [{ names: new Set(), joins: false, paths: [], evaluate: async () => value }],
    constant: undefined,
    fallback: undefined,
    required: false,
    kept: false,
    wanted: { form, values },
  };
}
