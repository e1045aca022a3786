/** Which fields of the service a mapping keeps, because others maintain them there (sync/keeps.ts). */
import { type Variant, variantOf } from "../../core/service-spec/business-relation.ts";
import type { Keep, Keeps } from "../../core/sync/keeps.ts";
import { FIELD_NAMES, NEVER_KEPT, REQUIRED_FIELDS, ruleOf } from "./fields.ts";
import {
  fieldsOf,
  type FieldRule,
  type MappingFile,
  tableOf,
  type ObjectRule,
} from "./mapping-file.ts";
import { MappingError } from "./mapping.ts";
import { nearest } from "./compare-texts.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../../core/service-spec/value-lists.ts";

/** Fields of which the service always has a value. */
export const NEVER_EMPTY: ReadonlySet<string> = new Set(["relationshipStatus", "amlFrequency"]);

const VARIANTS: readonly Variant[] = ["Person", "Company"];

export function keepOf({ fill, owned }: FieldRule): Keep | undefined {
  if (owned === false) return "always";
  return fill === "empty" ? "ifPresent" : undefined;
}

/**
 * All rules that map a field for one variant say the same of it (check-kept-fields.ts). The field is then
 * also kept in relations whose rule does not map it.
 */
export function keepsOfFile(file: MappingFile): Keeps {
  const kept = file.objects.flatMap((rule) => {
    const variants = variantsOf(rule, file);
    return fieldsOf(rule).flatMap(([field, given]) => {
      const keep = keepOf(given);
      return keep === undefined ? [] : [{ field, keep, variants }];
    });
  });
  return keepsBy(kept);
}

/** What a mapping module may export beside `mapRecord`. */
export interface KeepingModule {
  /** Fields that others maintain: sent when the relation is created, and never again. */
  readonly notOwned?: readonly string[];
  /** Fields that are sent only where the service has no value. */
  readonly fillEmpty?: readonly string[];
}

/** @throws MappingError */
export function keepsOfModule(
  { notOwned = [], fillEmpty = [] }: KeepingModule,
  name: string,
): Keeps {
  const given = { notOwned, fillEmpty };
  const problems = Object.entries(given).flatMap(([list, fields]) =>
    Array.isArray(fields)
      ? fields.flatMap((field) => problemOf(String(field), list, given))
      : [`${list} must be a list of the service's fields`],
  );
  if (problems.length > 0) throw new MappingError(name, problems);
  return keepsBy([
    ...notOwned.map((field) => ({ field, keep: "always", variants: VARIANTS }) as const),
    ...fillEmpty.map((field) => ({ field, keep: "ifPresent", variants: VARIANTS }) as const),
  ]);
}

function problemOf(field: string, list: string, { notOwned }: Required<KeepingModule>): string[] {
  if (!FIELD_NAMES.includes(field)) {
    const near = nearest(field, FIELD_NAMES);
    const meant = near === undefined ? "" : `; did you mean ${near}?`;
    return [`${list}: the service has no field ${field}${meant}`];
  }
  if (NEVER_KEPT.has(field))
    return [`${list}: ${field} cannot be kept: crmsync sends it each time`];
  if (list === "notOwned") return [];
  if (notOwned.includes(field)) return [`fillEmpty: ${field} is listed under notOwned as well`];
  return NEVER_EMPTY.has(field)
    ? [`fillEmpty: the service always has a value of ${field}; list it under notOwned`]
    : [];
}

interface Kept {
  readonly field: string;
  readonly keep: Keep;
  readonly variants: readonly Variant[];
}

function keepsBy(all: readonly Kept[]): Keeps {
  const keeps: Partial<Record<Variant, Record<string, Keep>>> = {};
  for (const { field, keep, variants } of all) {
    for (const variant of variants) {
      if (ruleOf(field, variant) === undefined) continue;
      // A relation that lacks a required field could not be sent at all.
      const isRequired = REQUIRED_FIELDS[variant].includes(field);
      (keeps[variant] ??= {})[field] = isRequired ? "ifPresent" : keep;
    }
  }
  return keeps;
}

const TYPES = [PERSON_TYPE, ...COMPANY_TYPES];

/** The variants that records of a rule may become, as far as the file shows. */
export function variantsOf(rule: ObjectRule, file: MappingFile): readonly Variant[] {
  const both: readonly Variant[] = ["Person", "Company"];
  const type = rule.fields["type"];
  if (type === undefined) return both;
  const table = tableOf(type, file);
  if (type.from !== undefined && table === undefined) return both;
  const values = [type.value, type.default, ...Object.values(table ?? {})].filter(
    (value) => value !== undefined && value !== null,
  );
  const meant = values.map((value) => nearest(String(value), TYPES) ?? value);
  const possible = new Set(meant.map(variantOf));
  // Another check reports a value that is no type; the other fields are then checked for both variants.
  return possible.has(undefined) ? both : both.filter((variant) => possible.has(variant));
}
