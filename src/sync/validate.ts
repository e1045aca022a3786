import {
  companySchema,
  personSchema,
  variantOf,
  type BusinessRelation,
  type Variant,
} from "../service-spec/business-relation.ts";
import { kindOf, problemsOf, type Problem } from "../event/problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../service-spec/value-lists.ts";
import { FIELD_MAX_LENGTH } from "./limits.ts";
import { tenantProblems } from "./tenant-problems.ts";

export type Validated =
  | { readonly ok: true; readonly payload: BusinessRelation; readonly variant: Variant }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Checks a candidate against the specification and the tenant's value lists, before a request is
 * spent. The payload carries the specification's defaults: a PUT that omits them might reset them.
 */
export function validatePayload(
  candidate: Readonly<Record<string, unknown>>,
  lists: TenantLists,
): Validated {
  const variant = variantOf(candidate["type"]);
  if (variant === undefined) {
    const rule = `must be one of ${[PERSON_TYPE, ...COMPANY_TYPES].join(", ")}`;
    return { ok: false, problems: [{ field: "type", rule, kind: kindOf(candidate["type"]) }] };
  }
  const schema = variant === "Person" ? personSchema : companySchema;
  const parsed = schema.safeParse(candidate);
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error, candidate)),
    ...tenantProblems(candidate, variant, lists),
    ...sizeProblems(candidate),
  ];
  return parsed.success && problems.length === 0
    ? { ok: true, payload: parsed.data, variant }
    : { ok: false, problems };
}

function sizeProblems(candidate: Readonly<Record<string, unknown>>): Problem[] {
  const rule = `must have at most ${FIELD_MAX_LENGTH} characters, the most that crmsync sends`;
  return Object.keys(candidate)
    .filter((field) => lengthOf(candidate[field]) > FIELD_MAX_LENGTH)
    .map((field) => ({ field, rule, kind: kindOf(candidate[field]) }));
}

/** Of a text, or of all texts of a list. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, one) => sum + (typeof one === "string" ? one.length : 0), 0);
}
