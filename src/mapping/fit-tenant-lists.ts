/** Leaves out values that the tenant's value lists do not allow. */
import { FIELDS_OF, variantOf } from "../service-spec/business-relation.ts";
import type { TenantFieldConfig, TenantLists } from "../service-spec/tenant-lists.ts";
import { lookUp } from "./fold.ts";
import type { MapOptions, MappingResult, MappingWarning, WarningReason } from "./mapping.ts";
import { warningOf } from "./warning.ts";

/** A field that the tenant requires keeps its value, so that the record becomes a dead letter. */
export function fitTenantLists(
  result: MappingResult,
  lists: TenantLists,
  options: MapOptions = {},
): MappingResult {
  if (result.kind !== "mapped" || result.candidate === undefined) return result;
  const candidate: Record<string, unknown> = { ...result.candidate };
  const warnings: MappingWarning[] = [...result.warnings];
  const variant = variantOf(candidate["type"]);
  for (const [field, config] of lists) {
    const value = candidate[field];
    if (value === undefined || variant === undefined || !FIELDS_OF[variant].has(field)) continue;
    const fitted = fitField(field, value, config, options);
    if (fitted.value === undefined && config.isRequired) continue;
    warnings.push(...fitted.warnings);
    if (fitted.value === undefined) delete candidate[field];
    else candidate[field] = fitted.value;
  }
  return { ...result, candidate, warnings };
}

function fitField(
  field: string,
  value: unknown,
  config: TenantFieldConfig,
  options: MapOptions,
): { value: unknown; warnings: MappingWarning[] } {
  const warnings: MappingWarning[] = [];
  const warn = (reason: WarningReason, found: unknown) =>
    warnings.push(warningOf(field, reason, found, options));
  const { values } = config;
  const found = [value].flat().flatMap((item) => {
    const listed = values === undefined ? item : lookUp(String(item), values);
    if (listed === undefined) warn("not_in_tenant_list", item);
    return listed === undefined ? [] : [listed];
  });
  // Two spellings of one value are one value.
  const fitted = [...new Set(found)];
  if (fitted.length > 1 && !config.multiSelect) {
    warn("too_many", fitted);
    return { value: undefined, warnings };
  }
  if (fitted.length === 0) return { value: undefined, warnings };
  return { value: Array.isArray(value) ? fitted : fitted[0], warnings };
}
