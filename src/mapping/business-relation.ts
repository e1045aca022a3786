/**
 * The mapping for records that are payloads already. It is strict: whoever sends payloads knows
 * the service's rules, so a value that breaks one is an error to be told, not to be dropped.
 */
import { crmCodeSchema, isEmail } from "../service-spec/business-relation.ts";
import { problemsOf } from "../sync/problem.ts";
import { cleanCandidate } from "./clean.ts";
import type { Mapping, MappingResult, MappingWarning, MapOptions } from "./mapping.ts";

export const businessRelationMapping: Mapping = {
  name: "business-relation",
  objects: [],
  reads: new Set(),
  async map(context, record, _lists, options = {}): Promise<MappingResult> {
    // The key goes as it is, unlike the other texts: cleaning could make two records one. A
    // deleted record may come as its subject alone.
    const crmCode = record === undefined ? context.recordId : record["crmCode"];
    const parsed = crmCodeSchema.safeParse(crmCode);
    if (!parsed.success) {
      const problems = problemsOf(parsed.error, crmCode).map((p) => ({ ...p, field: "crmCode" }));
      return { kind: "unmappable", crmCode: undefined, problems, warnings: [] };
    }
    const mapped = { kind: "mapped", crmCode: parsed.data } as const;
    if (record === undefined) return { ...mapped, candidate: undefined, warnings: [] };

    const { candidate, dropped } = cleanCandidate(record);
    const warnings = dropped.map((field) =>
      warning(field, "unknown_field", record[field], options),
    );
    // The service's pattern refuses addresses that are perfectly good: no reason to lose a record.
    const { email, ...rest } = candidate;
    if (email === undefined || (typeof email === "string" && isEmail(email))) {
      return { ...mapped, candidate, warnings };
    }
    warnings.push(warning("email", "not_accepted", email, options));
    return { ...mapped, candidate: rest, warnings };
  },
  async close() {},
};

function warning(
  field: string,
  reason: MappingWarning["reason"],
  value: unknown,
  options: MapOptions,
): MappingWarning {
  return options.explain === true
    ? { field, reason, value: typeof value === "string" ? value : JSON.stringify(value) }
    : { field, reason };
}
