/**
 * The mapping for records that already have the service's fields. It is strict: senders of
 * payloads know the service's rules, so a value that breaks a rule makes a dead letter.
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
    // The key is not cleaned like other texts: cleaning could give two records the same key.
    // A deletion without a record has only its subject.
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
    // The service's pattern rejects some valid addresses; that must not cost the whole record.
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
