import { kindOf } from "../event/problem.ts";
import type { MapOptions, MappingWarning, WarningReason } from "./mapping.ts";

/** Where the value is none of the record: the error's text, the names of fields. */
const KINDS: Partial<Record<WarningReason, (value: unknown) => string>> = {
  expression_failed: () => "the record",
  not_carried: (names) => `a record without ${String(names)}`,
};

/** The one constructor of warnings. The value itself is included only to explain. */
export function warningOf(
  field: string,
  reason: WarningReason,
  value: unknown,
  options: MapOptions,
): MappingWarning {
  const kind = KINDS[reason]?.(value) ?? kindOf(value);
  const explained = options.explain === true && value !== undefined;
  return {
    field,
    reason,
    kind,
    ...(explained && { value: textOf(value) }),
  };
}

/** A value as people read it. What a module returns need not be JSON. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? kindOf(value);
  } catch {
    return kindOf(value);
  }
}
