/**
 * Which values a tenant allows in the fields that it may configure.
 * Source: spec, "TenantBusinessRelationSchemaResponse" and "Per-client value lists".
 */
import { z } from "zod";
import { FIELDS_OF, type Variant } from "./business-relation.ts";
import { kindOf, type Problem } from "../sync/problem.ts";
import { DEFAULT_TENANT_VALUES } from "./value-lists.ts";

const tenantFieldSchema = z.looseObject({
  type: z.string().optional(),
  values: z.array(z.string()).nullish(),
  isRequired: z.boolean().nullish(),
  multiSelect: z.boolean().nullish(),
});

/** The body of GET …/schema-config; fields and members that the spec does not name are let be. */
export const tenantSchemaResponse = z.looseObject({
  fields: z.record(z.string(), tenantFieldSchema),
});

export interface TenantField {
  /** Allowed values; undefined: any, since they are specific to the organisation. */
  readonly values: ReadonlySet<string> | undefined;
  readonly isRequired: boolean;
  readonly multiSelect: boolean;
}

export type TenantLists = ReadonlyMap<string, TenantField>;

/** The spec's own lists, for as long as the tenant's are not known. */
export const DEFAULT_TENANT_LISTS: TenantLists = new Map(
  Object.entries(DEFAULT_TENANT_VALUES).map(([field, values]) => [
    field,
    {
      values: values.length === 0 ? undefined : new Set<string>(values),
      isRequired: false,
      multiSelect: true,
    },
  ]),
);

/** What a schema-config answer says. An absent or empty list of values allows any. */
export function tenantListsOf(response: z.output<typeof tenantSchemaResponse>): TenantLists {
  return new Map(
    Object.entries(response.fields).map(([field, config]) => [
      field,
      {
        values: (config.values ?? []).length === 0 ? undefined : new Set(config.values),
        isRequired: config.isRequired ?? false,
        multiSelect: config.multiSelect ?? true,
      },
    ]),
  );
}

/** What of a payload the tenant's lists do not allow. Fields that the variant lacks are let be. */
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
    if (config.isRequired && items.length === 0) problem(field, "is required by the tenant", value);
    if (!config.multiSelect && items.length > 1) {
      problem(field, "must hold one value (the tenant's list is single-select)", value);
    }
    for (const [index, item] of items.entries()) {
      if (config.values === undefined || config.values.has(String(item))) continue;
      const at = Array.isArray(value) ? `${field}[${index}]` : field;
      problem(at, "must be one of the tenant's values (see schema-config)", item);
    }
  }
  return problems;
}
