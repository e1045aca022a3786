/** What a mapping file must hold beyond its form; told before the first record is mapped. */
import { isCountryCode } from "../service-spec/iso-codes.ts";
import { variantOf, type Variant } from "../service-spec/business-relation.ts";
import { compileExpression, ExpressionError } from "./compile-expression.ts";
import { REQUIRED_FIELDS, ruleOf, traitsOf } from "./fields.ts";
import { ruleOfField, type FieldRule, type MappingFile, type ObjectRule } from "./mapping-file.ts";
import { nearest } from "./nearest.ts";
import { DATE_FORMAT } from "./normalise/date.ts";
import { normalise } from "./normalise/normalise.ts";
import type { Fault, Path } from "./read-mapping-file.ts";

export function checkMappingFile(file: MappingFile): Fault[] {
  const faults: Fault[] = [];
  const taken = new Map<string, number>();
  for (const [index, rule] of file.objects.entries()) {
    const path = ["objects", index];
    for (const object of [rule.object].flat()) {
      const name = object.toLowerCase();
      if (taken.has(name)) {
        faults.push({
          path,
          says: `is never used: an earlier rule takes every ${object}; give that one a \`when\``,
        });
      }
      if (rule.when === undefined) taken.set(name, index);
      if (file.ignore?.some((ignored) => ignored.toLowerCase() === name)) {
        faults.push({ path, says: `${object} is also under \`ignore\`: keep one of them` });
      }
    }
    faults.push(...checkObject(rule, path, file));
  }
  return faults;
}

function checkObject(rule: ObjectRule, path: Path, file: MappingFile): Fault[] {
  const faults: Fault[] = [];
  if (rule.when !== undefined)
    faults.push(...checkExpression(rule.when, [...path, "when"], { condition: true }));
  faults.push(...checkExpression(rule.crmCode, [...path, "crmCode"], { key: true }));
  const fields = Object.entries(rule.fields).flatMap(([name, field]) =>
    field === undefined ? [] : [[name, ruleOfField(field)] as const],
  );
  const type = fields.find(([name]) => name === "type")?.[1];
  const variants = variantsOf(type, file);
  if (type === undefined) {
    faults.push({
      path: [...path, "fields"],
      says: "`type` is missing: it says whether the record is a Person or which kind of company, for instance type: { value: Person }",
    });
  }
  for (const [name, field] of fields) {
    faults.push(...checkField(name, field, [...path, "fields", name], variants, file));
  }
  const [only] = variants.length === 1 ? variants : [];
  const present = new Set(fields.map(([name]) => name));
  for (const name of only === undefined ? [] : REQUIRED_FIELDS[only]) {
    if (present.has(name)) continue;
    faults.push({
      path: [...path, "fields"],
      says: `\`${name}\` is missing: the service requires it`,
    });
  }
  return faults;
}

/** The variants that the records of a rule may become, as far as the file tells. */
function variantsOf(type: FieldRule | undefined, file: MappingFile): readonly Variant[] {
  const both: readonly Variant[] = ["Person", "Company"];
  if (type === undefined) return both;
  const table = typeof type.table === "string" ? file.tables?.[type.table] : type.table;
  if (type.from !== undefined && table === undefined) return both;
  const values = [type.value, type.default, ...Object.values(table ?? {})].filter(
    (value) => value !== undefined && value !== null,
  );
  const possible = new Set(values.map(variantOf));
  // A value that is no type is told by itself, and says nothing of the other fields.
  return possible.has(undefined) ? both : both.filter((variant) => possible.has(variant));
}

function checkField(
  name: string,
  field: FieldRule,
  path: Path,
  variants: readonly Variant[],
  file: MappingFile,
): Fault[] {
  const faults: Fault[] = [];
  const fault = (says: string, key?: string) =>
    faults.push({ path: key === undefined ? path : [...path, key], says });
  const { form } = traitsOf(name);

  if (variants.length > 0 && variants.every((variant) => ruleOf(name, variant) === undefined)) {
    const [variant] = variants;
    fault(`is a field of ${variant === "Person" ? "companies" : "persons"} only`);
  }
  if (field.from === undefined && field.value === undefined) {
    fault("needs `from` (an expression) or `value` (a constant)");
  }
  if (field.from !== undefined && field.value !== undefined) {
    fault("has both `from` and `value`: keep one of them");
  }
  for (const key of ["from", "fallback"] as const) {
    const text = field[key];
    if (text === undefined) continue;
    // A text alone has no key of its own in the file; its place is the field's.
    faults.push(...checkExpression(text, [...path, key]));
    const meant = traitsOf(name).values?.find((value) => value === text);
    if (meant !== undefined) {
      fault(`${text} would be read as the name of a CRM field; the constant is { value: ${text} }`);
    }
  }
  if (field.as !== undefined && field.as !== form && field.as !== "text") {
    if (form !== "text" || field.as === "list") {
      fault(`this field takes ${form === "list" ? "a list" : `a ${form}`}: leave \`as\` out`, "as");
    }
  }
  if (field.separator !== undefined && form !== "list") {
    fault("is for fields that are lists", "separator");
  }
  if (field.format !== undefined && (field.as ?? form) !== "date") fault("is for dates", "format");
  if (field.format !== undefined && !DATE_FORMAT.test(field.format)) {
    fault("must be made of YYYY, MM and DD, for instance DD/MM/YYYY", "format");
  }
  if (field.country !== undefined && (form !== "phone" || !isCountryCode(field.country))) {
    fault(form === "phone" ? "must be a code such as LU" : "is for telephone numbers", "country");
  }
  faults.push(...checkConstants(name, field, path, variants, file));
  return faults;
}

function checkExpression(
  text: string,
  path: Path,
  options: Parameters<typeof compileExpression>[1] = {},
): Fault[] {
  try {
    compileExpression(text, options);
    return [];
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return [{ path, says: `the expression cannot be used: ${error.message}` }];
  }
}

function checkConstants(
  name: string,
  field: FieldRule,
  path: Path,
  variants: readonly Variant[],
  file: MappingFile,
): Fault[] {
  const faults: Fault[] = [];
  const check = (value: unknown, at: Path) => {
    const says = constantFault(name, value, variants);
    if (says !== undefined) faults.push({ path: at, says });
  };
  if (field.value !== undefined) check(field.value, [...path, "value"]);
  if (field.default !== undefined) check(field.default, [...path, "default"]);
  if (typeof field.table === "string" && file.tables?.[field.table] === undefined) {
    const near = nearest(field.table, Object.keys(file.tables ?? {}));
    faults.push({
      path: [...path, "table"],
      says: `there is no table ${field.table}${near === undefined ? " under `tables`" : `; did you mean ${near}?`}`,
    });
  }
  const isNamed = typeof field.table === "string";
  const table = isNamed ? file.tables?.[field.table as string] : field.table;
  const base: Path = isNamed ? ["tables", field.table as string] : [...path, "table"];
  for (const [key, value] of Object.entries((table ?? {}) as Record<string, unknown>)) {
    if (value !== null) check(value, [...base, key]);
  }
  return faults;
}

/** Why a constant cannot be a value of the field; tenants' own lists are known only later. */
function constantFault(
  name: string,
  value: unknown,
  variants: readonly Variant[],
): string | undefined {
  const { form, values } = traitsOf(name);
  const normalised = normalise(value, { form, values });
  const usable = (variants.length === 0 ? (["Person", "Company"] as const) : variants).some(
    (variant) => ruleOf(name, variant)?.safeParse(normalised.value).success === true,
  );
  if (normalised.value !== undefined && normalised.refused.length === 0 && usable) return undefined;
  const near = values && nearest(String(value), values);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  if (values !== undefined) return `${String(value)} is none of ${values.join(", ")}${hint}`;
  return `${String(value)} is no value that ${name} can have`;
}
