/**
 * Kept fields: fields of a relation that others maintain at the service. A PUT replaces a whole
 * relation (spec), so at an update their values are read from the service and sent back. Pure.
 */
import { variantOf, type Variant } from "../service-spec/business-relation.ts";

/** `always`: whatever the service has stays. `ifPresent`: ours is sent where the service has none. */
export type Keep = "always" | "ifPresent";

export type KeptFields = Readonly<Record<string, Keep>>;

/** The kept fields of each variant, by name. */
export type Keeps = Readonly<Partial<Record<Variant, KeptFields>>>;

export const NO_KEEPS: Keeps = {};

type Body = Readonly<Record<string, unknown>>;

/** Undefined: the variant has no kept field. */
export function keptFieldsOf(variant: Variant | undefined, keeps: Keeps): KeptFields | undefined {
  const fields = variant && keeps[variant];
  return fields !== undefined && Object.keys(fields).length > 0 ? fields : undefined;
}

/**
 * With these fields kept, too, for one change: their values in the CRM were not understood. What can be sent of
 * them is sent where the service has none.
 */
export function keepsWith(
  keeps: Keeps,
  variant: Variant | undefined,
  notUnderstood: readonly string[],
): Keeps {
  if (variant === undefined || notUnderstood.length === 0) return keeps;
  const fields = Object.fromEntries(notUnderstood.map((field) => [field, "ifPresent"] as const));
  return { ...keeps, [variant]: { ...fields, ...keeps[variant] } };
}

/**
 * What the service has in the kept fields. Undefined: there are none.
 * @param into what is to be sent; its variant counts for a body whose type the specification lacks.
 */
export function keptIn(found: Body, into: Body | undefined, keeps: Keeps): Body | undefined {
  const variant = variantOf(found["type"]) ?? variantOf(into?.["type"]);
  const fields = keptFieldsOf(variant, keeps);
  if (fields === undefined) return undefined;
  return Object.fromEntries(
    Object.keys(fields).flatMap((field) => (hasValue(found[field]) ? [[field, found[field]]] : [])),
  );
}

/** @param kept what the service has in these fields. */
export function carryOver(body: Body, kept: Body, fields: KeptFields): Body {
  const merged: Record<string, unknown> = { ...body };
  for (const [field, keep] of Object.entries(fields)) {
    if (kept[field] !== undefined) merged[field] = kept[field];
    else if (keep === "always") delete merged[field];
  }
  return merged;
}

export const hasValue = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== "" &&
  !(Array.isArray(value) && value.length === 0);

/** The same text for the same fields, in whatever order they were named. */
export function textOfKeeps(keeps: Keeps): string {
  const variants = (["Person", "Company"] as const).flatMap((variant) => {
    const fields = keptFieldsOf(variant, keeps);
    return fields === undefined ? [] : [[variant, Object.fromEntries(sorted(fields))]];
  });
  return JSON.stringify(Object.fromEntries(variants));
}

export const sorted = (fields: KeptFields): [string, Keep][] =>
  Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
