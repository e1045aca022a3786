/** The structure of a mapping file; editors get it as mappings/mapping.schema.json. */
import { z } from "zod";
import { isCountryCode, isLanguageCode } from "../../core/service-spec/iso-codes.ts";
import type { IdRule } from "./record-ids.ts";
import type { GoneRule } from "./gone.ts";
import type { Relation } from "../../core/sync/mapped.ts";
import { FIELD_NAMES, FORMS } from "./fields.ts";
import { isDateFormat } from "./normalise/date.ts";
import { pullRules } from "./pull-rule.ts";
import { optional, orExpression, text, zone, type Path } from "./schema-parts.ts";
import { webhookRules } from "./webhooks/rule.ts";

const expression = text.describe(
  "A JSONata expression on the CRM's record; $event has recordId, object, subject, type and source.",
);

const constant = z.union([z.string(), z.boolean(), z.number(), z.array(z.string())], {
  error: "must be a text, a number, true or false",
});

const tableValue = z.union([z.string(), z.boolean(), z.null()], {
  error: "must be a text, true, false or null; put a number in quotes",
});

const table = z.record(z.string(), tableValue).meta({
  id: "table",
  description:
    "The CRM's value → the service's value; null: no value, without a warning. Case and accents do not matter.",
});

const fieldRule = z.strictObject({
  from: optional(expression, "The expression that gives the value."),
  value: optional(constant, "A constant, instead of an expression."),
  as: optional(z.enum(FORMS), "The form of the value; by default the form that the field needs."),
  table: optional(
    z.union([z.string(), table], {
      error: "must be the name of a table, or a block of lines `CRM value: service value`",
    }),
    "Translates values: the name of a table under `tables`, or a table written here.",
  ),
  separator: optional(text, "Separates the items of a list in one text; by default a semicolon."),
  format: optional(
    z
      .string()
      .refine(isDateFormat, { error: "must consist of YYYY, MM and DD, for example DD/MM/YYYY" }),
    "The format of dates in the record, for example DD/MM/YYYY.",
  ),
  zone: optional(
    zone,
    "The time zone of the CRM by its name, as Europe/Luxembourg: a moment becomes the day that it is there.",
  ),
  country: optional(
    z.string().refine((text) => text === "numeric" || isCountryCode(text), {
      error: "must be a country code such as LU, or numeric",
    }),
    "Of a telephone number: ISO code of the country if it has no prefix and the record no country. Of a country: `numeric`, if numbers are those of ISO 3166.",
  ),
  fallback: optional(expression, "The expression to use if `from` gives no usable value."),
  default: optional(constant, "The constant to use if nothing else gives a value."),
  required: optional(z.boolean(), "If true, a record without a value becomes a dead letter."),
  owned: optional(
    z.boolean(),
    "If false, others maintain this field at the service: the value is sent when the relation is created, and never overwrites or clears what the service has.",
  ),
  fill: optional(
    z.literal("empty"),
    "The value is sent only where the service has none; what the service has stays.",
  ),
});

const field = orExpression(
  expression,
  fieldRule,
  "must be an expression, or a block with `from` or `value` (a constant: { value: … })",
).meta({ id: "field" });

const relation = z.strictObject({
  object: text.describe("The CRM's name of the related object."),
  many: optional(z.boolean(), "If true, it is a list of records; otherwise one record."),
  by: optional(text, "The field of this record that holds the id of the related one."),
  of: optional(
    z.union([text, z.literal(true)], { error: "must be the name of a field, or true" }),
    "The field of the related record that holds the id of this one; true, if `by` or an association of HubSpot leads to it. A change of the related record is then a change of this one.",
  ),
});

const gone = z.strictObject({
  field: text.describe("Where a record says whether it is deleted."),
  values: z
    .array(z.union([z.string(), z.number(), z.boolean()]).transform(String))
    .min(1)
    .describe("The values that mean deleted; every other value means that the record is there."),
});

function isPattern(text: string): boolean {
  try {
    return new RegExp(`^(?:${text})$`, "u") instanceof RegExp;
  } catch {
    return false;
  }
}

const PLACES = /\{(id|object)\}/g;

/** Nothing of a record decides to which host it leads. */
const isLink = (text: string): boolean =>
  /^https:\/\/[^/?#{}@\\\s]+\//.test(text) &&
  text.includes("{id}") &&
  !/[{}\s]/.test(text.replaceAll(PLACES, "")) &&
  URL.canParse(text);

const objectRule = z.strictObject({
  object: z
    .union([text.transform((name) => [name]), z.array(text).min(1)], {
      error: "must be the CRM's name of the object, or a list of names",
    })
    .describe("The CRM's name of the object: the first part of the event's subject."),
  when: optional(
    expression,
    "An expression. The rule applies only to records for which it is true; the first rule that applies is used.",
  ),
  onLeave: optional(
    z.enum(["keep", "terminate"]),
    "What becomes of the relation of a record that no longer fulfils `when`: keep (the default) leaves it as it is, terminate sets its status to terminated.",
  ),
  crmCode: expression.describe("The expression that gives the record's key at the service."),
  gone: optional(
    z.union([text, gone], { error: "must be a path of names, or a block with field and values" }),
    "Where a record says that it is deleted (true, yes, 1, or a time that is not in the future); or a block.",
  ),
  id: optional(
    z.strictObject({
      pattern: z
        .string()
        .refine(isPattern, { error: "must be a regular expression" })
        .describe("A regular expression for the whole id."),
    }),
    "Which ids the object's records have, where they are not of ordinary letters, digits and signs.",
  ),
  owner: optional(
    expression,
    "The expression that gives the id, or the e-mail, of who looks after the record in the CRM: outcomes name it (OUTCOME_WEBHOOK).",
  ),
  link: optional(
    z.string().refine(isLink, {
      error:
        "must be an https address with {id} after its host, such as https://crm.example/contact/{id}; {object} may stand there, too",
    }),
    "The address of the record in the CRM, to which the console leads: {id} and {object} stand for those of the record.",
  ),
  keyNeedsRecord: optional(
    z.boolean(),
    "If true, `mapping check` accepts a crmCode that cannot be made for a deletion without its record.",
  ),
  with: optional(
    z.record(
      z.string().regex(/^[A-Za-z_]\w*$/, {
        error: "must be a name of letters, digits and _, as expressions write it",
      }),
      relation,
    ),
    "Related records that crmsync reads together with this one, each under the name that it gets in the record.",
  ),
  fields: z
    .strictObject(Object.fromEntries(FIELD_NAMES.map((name) => [name, field.optional()])))
    .describe(
      "The service's fields. `type` decides whether the record is a person or a kind of company.",
    ),
});

export const mappingFile = z.strictObject({
  version: z.literal(1).describe("Version of this file format."),
  name: optional(text, "Shown in logs."),
  tables: optional(z.record(z.string(), table), "Tables that fields refer to by name."),
  nothing: optional(
    z.array(text),
    "Words that mean no value, in any field, beside NULL, N/A, - and the like.",
  ),
  languages: optional(
    z.record(
      z.string(),
      z.string().refine(isLanguageCode, { error: "must be a language code such as de" }),
    ),
    "What the CRM writes for a language → its ISO code, where it is no code or name of one: CH: de.",
  ),
  ignore: optional(z.array(text), "Objects of the CRM that must not be sent."),
  objects: z.array(objectRule).min(1).describe("One rule per kind of record, tried in this order."),
  webhooks: optional(
    webhookRules,
    "JSON that any tool may post to /webhooks/json/<name>: by name, who may post it and what it says.",
  ),
  pull: optional(
    pullRules,
    "REST APIs that are asked for what has changed, for PULL_FROM: by name, how the API lists its records.",
  ),
});

/** The keys that are allowed at a place of the file. */
export function keysAt(path: Path, schema: unknown = mappingFile): string[] {
  const [key, ...rest] = path;
  if (schema instanceof z.ZodOptional) return keysAt(path, schema.unwrap());
  if (schema instanceof z.ZodUnion) {
    return [...new Set(schema.options.flatMap((option) => keysAt(path, option)))];
  }
  if (schema instanceof z.ZodRecord) return keysAt(rest, schema.valueType);
  if (schema instanceof z.ZodArray) return keysAt(rest, schema.element);
  if (!(schema instanceof z.ZodObject)) return [];
  return key === undefined ? Object.keys(schema.shape) : keysAt(rest, schema.shape[key]);
}

export type MappingFile = z.output<typeof mappingFile>;
export type ObjectRule = z.output<typeof objectRule>;
export type FieldRule = z.output<typeof fieldRule>;

/** The objects that a rule applies to, in lower case. */
export const objectsOf = ({ object }: ObjectRule): ReadonlySet<string> =>
  new Set(object.map((name) => name.toLowerCase()));

/** The objects that the mapping has rules for, as the file writes them. */
export const allObjectsOf = ({ objects }: MappingFile): string[] => [
  ...new Set(objects.flatMap(({ object }) => object)),
];

/** Rules of one object may say the same. */
export function relationsOfFile({ objects }: MappingFile): Relation[] {
  const all = objects.flatMap((rule) =>
    Object.entries(rule.with ?? {}).map(([name, { by, many = false, object, of }]) => ({
      owners: rule.object,
      name,
      object,
      many,
      by,
      of: of === true ? undefined : of,
      isPart: of !== undefined,
    })),
  );
  return [...new Map(all.map((relation) => [JSON.stringify(relation), relation])).values()];
}

export const goneRulesOf = ({ objects }: MappingFile): GoneRule[] =>
  objects.flatMap((rule) => {
    if (rule.gone === undefined) return [];
    const own = typeof rule.gone === "string" ? { field: rule.gone } : rule.gone;
    return [{ objects: [...objectsOf(rule)], ...own }];
  });

/** Of each object, in lower case, the first rule counts that has one. */
export const linksOf = ({ objects }: MappingFile): ReadonlyMap<string, string> =>
  new Map(
    objects
      .toReversed()
      .flatMap((rule) =>
        rule.link === undefined ? [] : [...objectsOf(rule)].map((name) => [name, rule.link ?? ""]),
      ),
  );

/** The address of a record in its CRM; undefined where the mapping does not tell it. @param subject of its event */
export function linkOf(links: ReadonlyMap<string, string>, subject: string): string | undefined {
  const [, object = "", id = ""] = /^([^/]+)\/([^]+)$/.exec(subject) ?? [];
  const link = subject.isWellFormed() ? links.get(object.toLowerCase()) : undefined;
  return link?.replaceAll(PLACES, (_, name) => encodeURIComponent(name === "id" ? id : object));
}

export const idRulesOf = ({ objects }: MappingFile): IdRule[] =>
  objects.flatMap((rule) =>
    rule.id === undefined ? [] : [{ objects: [...objectsOf(rule)], pattern: rule.id.pattern }],
  );

/** The fields of a rule that the file has. */
export const fieldsOf = ({ fields }: ObjectRule): [name: string, field: FieldRule][] =>
  Object.entries(fields).flatMap(([name, field]) => (field === undefined ? [] : [[name, field]]));

/** The table of a field: it may be written there, or under `tables`. */
export const tableOf = ({ table }: FieldRule, { tables = {} }: MappingFile) =>
  typeof table === "string" ? tables[table] : table;
