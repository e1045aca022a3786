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
  /** Values that were allowed before, which relations may still have; `any`: every value was. */
  readonly lost?: ReadonlySet<string> | "any" | undefined;
}

/** By name of the field. */
export type TenantLists = ReadonlyMap<string, TenantFieldConfig>;

/** By field: the values that its list has lost and not got back, and when it lost the last ones, ms. */
export type Losses = Readonly<
  Record<string, { readonly at: number; readonly values: readonly string[] | "any" }>
>;

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

/**
 * An absent or empty list of values allows any value.
 * @param losses by field, as `lossesAfter` (list-changes.ts) has them.
 */
export function tenantListsOf(
  fields: Readonly<Record<string, TenantField>>,
  losses: Losses = {},
): TenantLists {
  const lostOf = (field: string) => {
    const lost = losses[field]?.values;
    return lost === undefined || lost === "any" ? lost : new Set(lost);
  };
  return new Map(
    Object.entries(fields).map(([field, config]) => [
      field,
      {
        values: (config.values ?? []).length === 0 ? undefined : new Set(config.values),
        isRequired: config.isRequired ?? false,
        multiSelect: config.multiSelect ?? true,
        lost: lostOf(field),
      },
    ]),
  );
}
