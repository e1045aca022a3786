/**
 * Which values a tenant allows in the fields that it may configure.
 * Source: spec, "TenantBusinessRelationSchemaResponse" and "Per-client value lists".
 */
import { z } from "zod";
import { DEFAULT_TENANT_VALUES } from "./value-lists.ts";

const tenantFieldSchema = z.looseObject({
  type: z.string().optional(),
  values: z.array(z.string()).nullish(),
  isRequired: z.boolean().nullish(),
  multiSelect: z.boolean().nullish(),
});

/** The body of GET …/schema-config; fields and members that the spec does not name are kept. */
export const tenantSchemaResponse = z.looseObject({
  fields: z.record(z.string(), tenantFieldSchema),
});

export interface TenantFieldConfig {
  /** Allowed values; undefined: any value (the values are specific to the organisation). */
  readonly values: ReadonlySet<string> | undefined;
  readonly isRequired: boolean;
  readonly multiSelect: boolean;
}

/** By name of the field. */
export type TenantLists = ReadonlyMap<string, TenantFieldConfig>;

/** The spec's own lists, in force until the tenant's lists are known. */
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

/** In force where no value is to be refused: the tenant's lists are not known yet. */
export const NO_LISTS: TenantLists = new Map();

/** Reads a schema-config response. An absent or empty list of values allows any value. */
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
