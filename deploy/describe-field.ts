/** What the service demands of each field, and what a mapping makes of its values, in words. */
import { FIELDS_OF, type Variant } from "../src/core/service-spec/business-relation.ts";
import { CRM_CODE_MAX_LENGTH } from "../src/core/service-spec/limits.ts";
import { DEFAULT_TENANT_LISTS } from "../src/core/service-spec/tenant-lists.ts";
import { problemsOf } from "../src/core/event/problem.ts";
import { REQUIRED_FIELDS, ruleOf, traitsOf, type Form } from "../src/intake/mapping/fields.ts";

export interface FieldDescription {
  readonly name: string;
  /** Undefined: the variant does not have the field. */
  readonly of: Readonly<Record<Variant, "required" | "optional" | undefined>>;
  readonly type: "text" | "list of texts" | "true or false";
  /** As the messages about a value that breaks it; undefined: any value of the type. */
  readonly rule: string | undefined;
  /** The closed list of values. */
  readonly values: readonly string[] | undefined;
  /** The service's own value when the field is absent. */
  readonly ifAbsent: string | undefined;
  /** What a mapping file makes of a value of the record. */
  readonly mapped: string;
}

const ANY_SPELLING = "any spelling of a value";
const TENANT_LIST = "any spelling of a value of the tenant's own list; others are left out";

/** Fields whose values are handled in a way of their own. */
const SPECIAL: Readonly<Record<string, string>> = {
  type: `${ANY_SPELLING}. \`Person\` makes a person, every other one a company; a record without it becomes a dead letter`,
  name: "a text, or a number. Where a person's name is not mapped, it is made of `firstName` and `lastName`",
  crmCode:
    "made by the expression `crmCode` of the rule, never cleaned; a whole number becomes a text",
};

const BY_FORM: Readonly<Record<Form, string>> = {
  text: "a text or a number",
  code: "a text with a digit, or a number; not one that a spreadsheet has changed (`10115.0`, `1.2E+10`)",
  country:
    "a code of two or three letters, or a name in seven languages; a number with `country: numeric`",
  nationality: "what a country takes, or a demonym in six languages (`Swiss`, `deutsch`)",
  language: "a code of two or three letters, also with a region (`de-CH`), or a name",
  date: "a date (ISO 8601, DD.MM.YYYY, YYYYMMDD, milliseconds) or the `format` that the file gives; a time is cut off",
  email: "an address that the rule allows, also after `mailto:`; another one is left out",
  phone:
    "E.164; without a prefix, that of the record's country. A number that is not valid is sent as it is; one without a digit, or that a spreadsheet has changed, is left out",
  boolean:
    "true or false, 1 or 0, or a word such as yes, ja, oui, si, sim; no, nein, non, nee, não",
  number: "a number",
  list: "a list, or one text with `;` between the items; each item once",
};

export function describeField(name: string): FieldDescription {
  const variants = (["Person", "Company"] as const).filter((one) => FIELDS_OF[one].has(name));
  const kind = (variant: Variant) =>
    !variants.includes(variant)
      ? undefined
      : isRequired(name, variant)
        ? ("required" as const)
        : ("optional" as const);
  const { form, values } = traitsOf(name);
  return {
    name,
    of: { Person: kind("Person"), Company: kind("Company") },
    type: form === "boolean" ? "true or false" : form === "list" ? "list of texts" : "text",
    rule: values === undefined ? brokenRule(name, variants) : undefined,
    values: values ?? tenantValues(name),
    ifAbsent: valueIfAbsent(name, variants),
    mapped: mappedAs(name),
  };
}

const isRequired = (name: string, variant: Variant): boolean =>
  name === "type" || name === "crmCode" || REQUIRED_FIELDS[variant].includes(name);

function mappedAs(name: string): string {
  const { form, values } = traitsOf(name);
  const special = SPECIAL[name];
  if (special !== undefined) return special;
  const base = BY_FORM[form];
  if (DEFAULT_TENANT_LISTS.has(name))
    return form === "list" ? `${base}; ${TENANT_LIST}` : TENANT_LIST;
  if (values === undefined) return base;
  return form === "list" ? `${base}; ${ANY_SPELLING}` : ANY_SPELLING;
}

const tenantValues = (name: string): readonly string[] | undefined => {
  const values = DEFAULT_TENANT_LISTS.get(name)?.values;
  return values && [...values];
};

/** One line about the field, for an editor that shows the schema of mapping files. */
export function summaryOf(name: string): string {
  const { of, rule, values, ifAbsent, mapped } = describeField(name);
  const owner =
    of.Person === undefined ? "Companies" : of.Company === undefined ? "Persons" : "Both";
  const required = (["Person", "Company"] as const).filter((one) => of[one] === "required");
  const parts = [
    `${owner}${required.length === 0 ? "" : `, required of ${required.join(" and ")}`}.`,
    rule && `The service: ${rule}.`,
    values &&
      `${DEFAULT_TENANT_LISTS.has(name) ? "By default one" : "One"} of ${values.join(", ")}.`,
    ifAbsent && `Without a value: ${ifAbsent}.`,
    `Takes ${mapped}.`,
  ];
  return parts.filter((part) => part !== undefined).join(" ");
}

/** Breaks every rule but that for lengths. */
const NONSENSE = "?\u0000";

/** The rule, in the words of the problem that a broken one causes. */
function brokenRule(name: string, variants: readonly Variant[]): string | undefined {
  const [variant] = variants;
  const rule = variant && ruleOf(name, variant);
  if (rule === undefined || traitsOf(name).form === "boolean") return undefined;
  const probes: unknown[] = [traitsOf(name).form === "list" ? [NONSENSE] : NONSENSE];
  if (name === "crmCode") probes.unshift("x".repeat(CRM_CODE_MAX_LENGTH + 1));
  const rules = probes.flatMap((probe) => {
    const { error } = rule.safeParse(probe);
    return error === undefined ? [] : problemsOf(error, probe).map((problem) => problem.rule);
  });
  return rules.length === 0 ? undefined : rules.join("; ");
}

function valueIfAbsent(name: string, variants: readonly Variant[]): string | undefined {
  const [variant] = variants;
  const parsed = variant && ruleOf(name, variant)?.safeParse(undefined);
  return typeof parsed?.data === "string" ? parsed.data : undefined;
}
