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

type TenantField = z.output<typeof tenantFieldSchema>;

/** The member `fields` of GET …/schema-config, each by itself: one that cannot be read spoils no other. */
export function tenantFields(fields: Readonly<Record<string, unknown>>): {
  readonly usable: Readonly<Record<string, TenantField>>;
  /** Names of the fields that are not as the spec promises. */
  readonly unusable: readonly string[];
} {
  const usable: Record<string, TenantField> = {};
  const unusable: string[] = [];
  for (const [name, field] of Object.entries(fields)) {
    const parsed = tenantFieldSchema.safeParse(field);
    if (parsed.success) usable[name] = parsed.data;
    else unusable.push(name);
  }
  return { usable, unusable };
}

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

/** An absent or empty list of values allows any value. */
export function tenantListsOf(fields: Readonly<Record<string, TenantField>>): TenantLists {
  return new Map(
    Object.entries(fields).map(([field, config]) => [
      field,
      {
        values: (config.values ?? []).length === 0 ? undefined : new Set(config.values),
        isRequired: config.isRequired ?? false,
        multiSelect: config.multiSelect ?? true,
      },
    ]),
  );
}
