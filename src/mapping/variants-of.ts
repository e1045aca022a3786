import { variantOf, type Variant } from "../service-spec/business-relation.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../service-spec/value-lists.ts";
import { tableOf, type MappingFile, type ObjectRule } from "./mapping-file.ts";
import { nearest } from "./nearest.ts";

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
