import type { TenantFieldConfig } from "../service-spec/tenant-lists.ts";
import { lookUp } from "./fold.ts";
import { textOf } from "./warning.ts";
import type { Normalised } from "./normalise/normalise.ts";

/** The value, or the items of it, as the tenant's list spells them; undefined: the list allows none. */
export function fitToList(
  value: unknown,
  { lost, multiSelect, values }: TenantFieldConfig,
): Pick<Normalised, "warnings"> & { readonly value: unknown } {
  const left: unknown[] = [];
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  const found = items.flatMap((item) => {
    if (item === undefined) return [];
    const listed = values === undefined ? item : lookUp(textOf(item), values);
    if (listed === undefined) left.push(item);
    return listed === undefined ? [] : [listed];
  });
  // Two spellings of one value are one value.
  const fitted = [...new Set(found)];
  const isTooMany = fitted.length > 1 && !multiSelect;
  const isUsable = fitted.length > 0 && !isTooMany;
  const wasListed = (item: unknown) =>
    lost === "any" || (lost !== undefined && lookUp(textOf(item), lost) !== undefined);
  const warnings = left.map((item) => ({
    reason:
      isUsable && wasListed(item) ? ("no_longer_listed" as const) : ("not_in_tenant_list" as const),
    value: item,
  }));
  if (isTooMany) {
    return { value: undefined, warnings: [...warnings, { reason: "too_many", value: fitted }] };
  }
  if (!isUsable) return { value: undefined, warnings };
  return { value: Array.isArray(value) ? fitted : fitted[0], warnings };
}
