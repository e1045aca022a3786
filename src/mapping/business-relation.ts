/** The mapping for records that are payloads already. */
import { crmCodeSchema, isEmail } from "../spec/business-relation.ts";
import { problemsOf } from "../spec/problem.ts";
import { cleanCandidate } from "./clean.ts";
import type { Mapping, MappingWarning } from "./mapping.ts";

export const businessRelationMapping: Mapping = {
  name: "business-relation",
  map(context, record) {
    // The key goes as it is, unlike the other texts: cleaning could make two records one. A
    // deleted record may come as its subject alone.
    const crmCode = record === undefined ? context.recordId : record["crmCode"];
    const parsed = crmCodeSchema.safeParse(crmCode);
    if (!parsed.success) {
      const problems = problemsOf(parsed.error, crmCode).map((p) => ({ ...p, field: "crmCode" }));
      return { ok: false, crmCode: undefined, problems };
    }
    if (record === undefined)
      return { ok: true, crmCode: parsed.data, candidate: undefined, warnings: [] };

    const { candidate, dropped } = cleanCandidate(record);
    const warnings: MappingWarning[] = dropped.map((field) => ({ field, reason: "unknown_field" }));
    // The service's pattern refuses addresses that are perfectly good: no reason to lose a record.
    const { email, ...rest } = candidate;
    if (email === undefined || (typeof email === "string" && isEmail(email))) {
      return { ok: true, crmCode: parsed.data, candidate, warnings };
    }
    warnings.push({ field: "email", reason: "not_accepted" });
    return { ok: true, crmCode: parsed.data, candidate: rest, warnings };
  },
};
