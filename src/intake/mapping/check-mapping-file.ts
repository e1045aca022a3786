/** Checks a mapping file beyond its structure, before the first record is mapped. */
import { type Mistake, type Path } from "./schema-parts.ts";
import { isDeepStrictEqual } from "node:util";
import type { Variant } from "../../core/service-spec/business-relation.ts";
import { checkKeptFields } from "./check-kept-fields.ts";
import { compileExpression } from "./compile-expression.ts";
import { ExpressionError } from "./expression-errors.ts";
import { REQUIRED_FIELDS, ruleOf, traitsOf } from "./fields.ts";
import {
  allObjectsOf,
  fieldsOf,
  objectsOf,
  tableOf,
  type FieldRule,
  type MappingFile,
  type ObjectRule,
} from "./mapping-file.ts";
import { nearest } from "./compare-texts.ts";
import { normalise } from "./normalise/normalise.ts";
import { variantsOf } from "./keeps-of-mapping.ts";
import { checkPulls } from "./pull-rule.ts";
import { checkWebhooks } from "./webhooks/check.ts";

export function checkMappingFile(file: MappingFile): Mistake[] {
  const mistakes: Mistake[] = [];
  /** Objects of which an earlier rule takes every record. */
  const taken = new Set<string>();
  for (const [index, rule] of file.objects.entries()) {
    const path = ["objects", index];
    for (const object of rule.object) {
      const name = object.toLowerCase();
      if (taken.has(name)) {
        mistakes.push({
          path,
          message: `is never used: an earlier rule matches every ${object}; add a \`when\` to that rule`,
        });
      }
      if (rule.when === undefined) taken.add(name);
      if (file.ignore?.some((ignored) => ignored.toLowerCase() === name)) {
        mistakes.push({
          path,
          message: `${object} is also listed under \`ignore\`: remove one of the two`,
        });
      }
    }
    mistakes.push(...checkObject(rule, path, file), ...checkLeaving(rule, path, file));
    mistakes.push(...checkRelations(rule, path, file));
  }
  const objects = allObjectsOf(file);
  mistakes.push(
    ...checkKeptFields(file),
    ...checkWebhooks(file.webhooks ?? {}, objects),
    ...checkPulls(file.pull ?? {}, objects),
  );
  return mistakes;
}

/** The relation of a record that left is found by its crmCode, so all rules of an object must make the same. */
function checkLeaving(rule: ObjectRule, path: Path, file: MappingFile): Mistake[] {
  if (rule.onLeave !== "terminate") return [];
  const at = [...path, "onLeave"];
  if (rule.when === undefined) {
    return [{ path: at, message: "has no effect without `when`: no record leaves this rule" }];
  }
  const objects = objectsOf(rule);
  const differs = file.objects.some(
    (other) =>
      other.crmCode !== rule.crmCode && [...objectsOf(other)].some((name) => objects.has(name)),
  );
  const message =
    "terminate needs the same `crmCode` in all rules of the object: it names the relation of a record that no rule applies to";
  return differs ? [{ path: at, message }] : [];
}

/** A record is read before it is known which rule of its object applies: all of them share the relations. */
function checkRelations(rule: ObjectRule, path: Path, file: MappingFile): Mistake[] {
  const objects = objectsOf(rule);
  return Object.entries(rule.with ?? {}).flatMap(([name, relation]) => {
    const { by, many, object, of } = relation;
    const differs = file.objects.some((other) => {
      const same = other.with?.[name];
      const isShared = [...objectsOf(other)].some((one) => objects.has(one));
      return isShared && same !== undefined && !isDeepStrictEqual(same, relation);
    });
    const isIgnored = file.ignore?.some((one) => one.toLowerCase() === object.toLowerCase());
    const messages = [
      differs &&
        "all rules of the object must say the same of it: it is read before a rule is chosen",
      by !== undefined && many === true && "`by` leads to one record: remove `many`",
      by !== undefined &&
        typeof of === "string" &&
        "`by` and the field in `of` are two ways to find it: remove one of them; for changes of what `by` finds write `of: true`",
      of !== undefined &&
        objects.size > 1 &&
        `\`of\` needs one object, and this rule is for ${[...objects].join(", ")}: write a rule for each`,
      of !== undefined &&
        isIgnored === true &&
        `${object} is also listed under \`ignore\`: remove it there, or its changes change nothing here`,
    ];
    return messages
      .filter((message) => message !== false)
      .map((message) => ({ path: [...path, "with", name], message }));
  });
}

function checkObject(rule: ObjectRule, path: Path, file: MappingFile): Mistake[] {
  const mistakes: Mistake[] = [];
  if (rule.when !== undefined)
    mistakes.push(...checkExpression(rule.when, [...path, "when"], { condition: true }));
  mistakes.push(...checkExpression(rule.crmCode, [...path, "crmCode"], { key: true }));
  if (rule.owner !== undefined) mistakes.push(...checkExpression(rule.owner, [...path, "owner"]));
  const fields = fieldsOf(rule);
  const variants = variantsOf(rule, file);
  if (rule.fields["type"] === undefined) {
    mistakes.push({
      path: [...path, "fields"],
      message:
        "`type` is missing: it decides whether the record is a Person or a kind of company, for example type: { value: Person }",
    });
  }
  for (const [name, field] of fields) {
    mistakes.push(...checkField(name, field, [...path, "fields", name], variants, file));
  }
  const [only] = variants.length === 1 ? variants : [];
  const present = new Set(fields.map(([name]) => name));
  for (const name of only === undefined ? [] : REQUIRED_FIELDS[only]) {
    if (present.has(name)) continue;
    mistakes.push({
      path: [...path, "fields"],
      message: `\`${name}\` is missing: the service requires it`,
    });
  }
  return mistakes;
}

function checkField(
  name: string,
  field: FieldRule,
  path: Path,
  variants: readonly Variant[],
  file: MappingFile,
): Mistake[] {
  const mistakes: Mistake[] = [];
  if (variants.length > 0 && variants.every((variant) => ruleOf(name, variant) === undefined)) {
    const [variant] = variants;
    const message = `only ${variant === "Person" ? "companies" : "persons"} have this field`;
    mistakes.push({ path, message });
  }
  return [
    ...mistakes,
    ...checkSources(name, field, path),
    ...checkForm(name, field, path),
    ...checkConstants(name, field, path, variants, file),
  ];
}

/** Where the value comes from. */
function checkSources(name: string, field: FieldRule, path: Path): Mistake[] {
  const mistakes: Mistake[] = [];
  const mistake = (message: string) => mistakes.push({ path, message });
  // A field that the CRM does not have may be left to others altogether.
  if (field.from === undefined && field.value === undefined && field.owned !== false) {
    mistake("needs `from` (an expression) or `value` (a constant)");
  }
  if (field.from !== undefined && field.value !== undefined) {
    mistake("has both `from` and `value`: remove one of the two");
  }
  for (const key of ["from", "fallback"] as const) {
    const text = field[key];
    if (text === undefined) continue;
    mistakes.push(...checkExpression(text, [...path, key]));
    if (traitsOf(name).values?.includes(text)) {
      mistake(
        `${text} is read as the name of a CRM field; for the constant write { value: ${text} }`,
      );
    }
  }
  return mistakes;
}

/** How the value is converted. */
function checkForm(name: string, field: FieldRule, path: Path): Mistake[] {
  const { form } = traitsOf(name);
  const { as = form } = field;
  const takesAs = as === form || as === "text" || (form === "text" && as !== "list");
  const rows = [
    ["as", takesAs, `this field takes a ${form}: remove \`as\``],
    ["separator", form === "list", "only fields that are lists have a separator"],
    ["format", as === "date", "only dates have a format"],
    ["zone", as === "date", "only dates have a time zone"],
    [
      "country",
      field.country === "numeric" ? /country|nationality/.test(as) : form === "phone",
      "only telephone numbers have a country, and only countries are numeric",
    ],
  ] as const;
  return rows.flatMap(([key, fits, message]) =>
    field[key] === undefined || fits ? [] : [{ path: [...path, key], message }],
  );
}

/** Column names that JSONata reads as a subtraction, a division or a function call: `E-Mail`, `PLZ/Ort`, `Ort (privat)`. */
const LIKE_A_NAME = /^[\p{L}_][\p{L}\p{N}_.]*(?:[-/][\p{L}_][\p{L}\p{N}_.]*)+$/u;
const WITH_BRACKETS = /^[\p{L}_][\p{L}\p{N}_ .-]* \([\p{L}\p{N}_ .-]+\)$/u;

function checkExpression(
  text: string,
  path: Path,
  options: Parameters<typeof compileExpression>[1] = {},
): Mistake[] {
  if (LIKE_A_NAME.test(text) || WITH_BRACKETS.test(text)) {
    const message = `${text} is arithmetic or a call here: for the field of that name write it in backticks and quotes, '\`${text}\`'`;
    return [{ path, message }];
  }
  try {
    compileExpression(text, options);
    return [];
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return [{ path, message: `the expression is not valid: ${error.message}` }];
  }
}

function checkConstants(
  name: string,
  field: FieldRule,
  path: Path,
  variants: readonly Variant[],
  file: MappingFile,
): Mistake[] {
  const mistakes: Mistake[] = [];
  const check = (value: unknown, at: Path) => {
    const message = constantMistake(name, value, variants);
    if (message !== undefined) mistakes.push({ path: at, message });
  };
  if (field.value !== undefined) check(field.value, [...path, "value"]);
  if (field.default !== undefined) check(field.default, [...path, "default"]);
  const { table } = field;
  const isNamed = typeof table === "string";
  const entries = tableOf(field, file);
  if (isNamed && entries === undefined) {
    const near = nearest(table, Object.keys(file.tables ?? {}));
    mistakes.push({
      path: [...path, "table"],
      message: `there is no table ${table}${near === undefined ? " under `tables`" : `; did you mean ${near}?`}`,
    });
  }
  const base: Path = isNamed ? ["tables", table] : [...path, "table"];
  for (const [key, value] of Object.entries(entries ?? {})) {
    if (value !== null) check(value, [...base, key]);
  }
  return mistakes;
}

/** Why a constant cannot be a value of the field. The tenant's own lists are not known here. */
function constantMistake(
  name: string,
  value: unknown,
  variants: readonly Variant[],
): string | undefined {
  const { form, values } = traitsOf(name);
  const normalised = normalise(value, { form, values });
  const usable = (variants.length === 0 ? (["Person", "Company"] as const) : variants).some(
    (variant) => ruleOf(name, variant)?.safeParse(normalised.value).success === true,
  );
  if (normalised.value !== undefined && normalised.warnings.length === 0 && usable)
    return undefined;
  const near = values && nearest(String(value), values);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  if (values !== undefined) return `${String(value)} is not one of ${values.join(", ")}${hint}`;
  return `${String(value)} is not a valid value of ${name}`;
}
