import {
  companySchema,
  personSchema,
  variantOf,
  type BusinessRelation,
  type Variant,
  FIELDS_OF,
} from "../service-spec/business-relation.ts";
import { kindOf, problemsOf, type Problem } from "../event/problem.ts";
import { type TenantLists, DEFAULT_TENANT_LISTS } from "../service-spec/tenant-lists.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../service-spec/value-lists.ts";
import { FIELD_MAX_LENGTH } from "./mapped.ts";

const RULES = {
  required: "is required by the tenant",
  single: "must hold one value (the tenant's list is single-select)",
  listed: "must be one of the tenant's values (see schema-config)",
  kept: "has a value at the service that the tenant's list no longer allows, and an update would have to send it back: allow it again, change it at the service, or let the mapping send another one",
} as const;

const LISTED_FIELDS = [...DEFAULT_TENANT_LISTS.keys()];

/** Whether a problem is one with the tenant's lists: it may pass when they change. */
export const isTenantProblem = ({ rule }: Pick<Problem, "rule">): boolean =>
  Object.values(RULES).some((known) => known === rule);

/** Longest value of a list that people are shown, characters. */
const MAX_SHOWN = 60;

/**
 * The value that the tenant's list lacks; undefined where something else is wrong, or it can be no item of a list.
 * For people who compare: logs, dead letters and metrics never contain values.
 */
export function unlistedValue(
  { field, rule }: Problem,
  payload: Readonly<Record<string, unknown>>,
): string | undefined {
  const [, name = "", index] = /^(\w+)(?:\[(\d+)\])?$/.exec(field) ?? [];
  const found = payload[name];
  const value = Array.isArray(found) ? (found as unknown[])[Number(index)] : found;
  const isShown = typeof value === "string" && value.length <= MAX_SHOWN && !/[@\n]/.test(value);
  return rule === RULES.listed && isShown ? value : undefined;
}

/** Whether the service's own value is in the way: only the service knows whether it still is. */
export const isKeptProblem = ({ rule }: Problem): boolean => rule === RULES.kept;

/** As a problem of a value that the service has, and the update sends back. */
export const ofKept = (problem: Problem): Problem =>
  problem.rule === RULES.listed ? { ...problem, rule: RULES.kept } : problem;

/** Whether a payload can only be checked with the tenant's lists, because it has values for them. */
export const needsTenantLists = (payload: Readonly<Record<string, unknown>>): boolean =>
  LISTED_FIELDS.some((field) => {
    const value = payload[field];
    return Array.isArray(value) ? value.some((one) => one !== undefined) : value !== undefined;
  });

/** The payload without the values that the tenant's lists do not allow any more. */
export function withoutUnlisted(
  payload: Readonly<Record<string, unknown>>,
  lists: TenantLists,
): Record<string, unknown> {
  const left: Record<string, unknown> = { ...payload };
  for (const [field, { multiSelect, values }] of lists) {
    const value = left[field];
    if (value === undefined || values === undefined) continue;
    const listed = (Array.isArray(value) ? (value as unknown[]) : [value]).filter((one) =>
      values.has(String(one)),
    );
    if (listed.length === 0) delete left[field];
    else if (Array.isArray(value)) left[field] = multiSelect ? listed : listed.slice(0, 1);
  }
  return left;
}

/** Values of the payload that the tenant's lists do not allow. Skips fields of the other variant. */
export function tenantProblems(
  payload: Readonly<Record<string, unknown>>,
  variant: Variant,
  lists: TenantLists,
): Problem[] {
  const problems: Problem[] = [];
  for (const [field, config] of lists) {
    if (!FIELDS_OF[variant].has(field)) continue;
    const value = payload[field];
    const items = value === undefined ? [] : Array.isArray(value) ? (value as unknown[]) : [value];
    const problem = (at: string, rule: string, found: unknown) =>
      problems.push({ field: at, rule, kind: kindOf(found) });
    if (config.isRequired && items.length === 0) problem(field, RULES.required, value);
    if (!config.multiSelect && items.length > 1) {
      problem(field, RULES.single, value);
    }
    for (const [index, item] of items.entries()) {
      if (config.values === undefined || config.values.has(String(item))) continue;
      const at = Array.isArray(value) ? `${field}[${index}]` : field;
      problem(at, RULES.listed, item);
    }
  }
  return problems;
}

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
