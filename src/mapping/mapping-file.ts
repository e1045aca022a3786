/** The form of a mapping file, as zod checks it and as editors complete it (JSON Schema). */
import { z } from "zod";
import { FIELD_NAMES, FORMS } from "./fields.ts";

const expression = z
  .string()
  .min(1)
  .describe(
    "A JSONata expression over the CRM's record; $event has recordId, object, subject, type and source.",
  );

const constant = z.union([z.string(), z.boolean(), z.number(), z.array(z.string())]);

const table = z.record(z.string(), z.union([z.string(), z.boolean(), z.null()])).meta({
  id: "table",
  description:
    "The CRM's value → the service's; null: leave the field out. Case and accents do not matter.",
});

const fieldRule = z.strictObject({
  from: expression.optional().describe("Expression that gives the value."),
  value: constant.optional().describe("A constant, instead of an expression."),
  as: z
    .enum(FORMS)
    .optional()
    .describe("The form to bring the value into; by default the form that the field needs."),
  table: z
    .union([z.string(), table])
    .optional()
    .describe("Translates values: the name of a table above, or a table written here."),
  separator: z
    .string()
    .min(1)
    .optional()
    .describe("Between the items of a list in one text; ; by default."),
  format: z.string().optional().describe("How dates are written, for instance DD/MM/YYYY."),
  country: z
    .string()
    .optional()
    .describe("ISO code for telephone numbers without a prefix, where the record has no country."),
  fallback: expression
    .optional()
    .describe("Expression used when the first gives nothing that is usable."),
  default: constant.optional().describe("Constant used when nothing else gives a value."),
  required: z.boolean().optional().describe("Without a value the record becomes a dead letter."),
});

const field = z.union([expression, fieldRule]).meta({ id: "field" });

const objectRule = z.strictObject({
  object: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .describe("The CRM's name of the object: the first part of the event's subject."),
  when: expression
    .optional()
    .describe("Only records for which this is true are sent; the first rule that fits is used."),
  crmCode: expression.describe("Expression that gives the record's key at the service."),
  fields: z
    .strictObject(Object.fromEntries(FIELD_NAMES.map((name) => [name, field.optional()])))
    .describe("The service's fields. `type` decides whether it is a person or which company."),
});

export const mappingFile = z.strictObject({
  version: z.literal(1).describe("Version of this file format."),
  name: z.string().min(1).optional().describe("Shown in logs."),
  tables: z.record(z.string(), table).optional().describe("Tables that fields refer to by name."),
  ignore: z
    .array(z.string().min(1))
    .optional()
    .describe("Objects of the CRM that are none of the service's business."),
  objects: z.array(objectRule).min(1).describe("One rule per kind of record, in order."),
});

/** Keys that have a meaning at the top, in a rule and in a field. */
export const KEYS = {
  top: Object.keys(mappingFile.shape),
  rule: Object.keys(objectRule.shape),
  field: Object.keys(fieldRule.shape),
} as const;

export type MappingFile = z.output<typeof mappingFile>;
export type ObjectRule = z.output<typeof objectRule>;
export type FieldRule = z.output<typeof fieldRule>;

/** A field's rule in its long form. */
export const ruleOfField = (rule: string | FieldRule): FieldRule =>
  typeof rule === "string" ? { from: rule } : rule;

/** What mappings/mapping.schema.json holds. */
export function mappingJsonSchema(): Record<string, unknown> {
  return {
    ...z.toJSONSchema(mappingFile, { io: "input" }),
    title: "crmsync mapping",
    description: "How a CRM's records become the compliance service's persons and companies.",
  };
}
