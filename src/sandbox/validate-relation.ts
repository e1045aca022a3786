import { COMPANY_TYPES, PERSON_TYPE, type TenantField } from "../core/service-spec/value-lists.ts";
import { FORMATS } from "./formats.ts";
import {
  COMPANY,
  PERSON,
  variantOf,
  type ArraySchema,
  type FieldSchema,
  type StringSchema,
  type VariantSchema,
} from "./relation-schema.ts";

/** What a tenant configured for one field. Spec: BusinessRelationSchemaField. */
export interface TenantFieldRule {
  readonly values: readonly string[];
  readonly isRequired: boolean;
  readonly multiSelect: boolean;
}
export type TenantRules = Readonly<Record<TenantField, TenantFieldRule>>;

export type UnknownFields = "reject" | "ignore";

export interface ValidationRules {
  readonly tenant: TenantRules;
  readonly unknownFields: UnknownFields;
}

/** A relation with its defaults filled in and its fields in the schema's order. */
export type BusinessRelation = { readonly type: string; readonly crmCode: string } & Readonly<
  Record<string, string | boolean | readonly string[]>
>;

export type Validation =
  | { readonly ok: true; readonly relation: BusinessRelation }
  | { readonly ok: false; readonly problems: readonly string[] };

/**
 * Checks a request body. A problem names the field and the rule, never the value: clients log
 * error texts, and values are personal data.
 */
export function validateRelation(body: unknown, rules: ValidationRules): Validation {
  if (body === undefined) return { ok: false, problems: ["body is required"] };
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    return { ok: false, problems: [`body must be a JSON object, not ${kindOf(body)}`] };
  }
  const given = body as Record<string, unknown>;
  const variant = variantOf(given["type"]);
  if (variant === undefined) {
    return { ok: false, problems: [typeProblem(given), ...crmCodeProblems(given)] };
  }
  const problems = [
    ...requiredFields(variant, rules.tenant)
      .filter((field) => !Object.hasOwn(given, field))
      .map((field) => `${field} is required`),
    ...Object.entries(given).flatMap(([field, value]) =>
      Object.hasOwn(variant.properties, field)
        ? fieldProblems(field, value, variant.properties[field]!, rules.tenant)
        : unknownFieldProblems(field, variant, rules.unknownFields),
    ),
  ];
  return problems.length > 0
    ? { ok: false, problems }
    : { ok: true, relation: withDefaults(given, variant) };
}

function requiredFields(variant: VariantSchema, tenant: TenantRules): string[] {
  const ofTenant = (Object.keys(tenant) as TenantField[]).filter(
    (field) => tenant[field].isRequired && Object.hasOwn(variant.properties, field),
  );
  return [...variant.required, ...ofTenant];
}

function typeProblem(given: Record<string, unknown>): string {
  if (!Object.hasOwn(given, "type")) return "type is required";
  return `type must be one of ${[PERSON_TYPE, ...COMPANY_TYPES].join(", ")}`;
}

/** Without a variant, crmCode is the only other field that can be checked. */
function crmCodeProblems(given: Record<string, unknown>): string[] {
  if (!Object.hasOwn(given, "crmCode")) return ["crmCode is required"];
  return stringProblems("crmCode", given["crmCode"], PERSON.properties["crmCode"] as StringSchema);
}

function unknownFieldProblems(
  field: string,
  variant: VariantSchema,
  policy: UnknownFields,
): string[] {
  if (policy === "ignore") return [];
  const other = variant === PERSON ? COMPANY : PERSON;
  const [self, its] = variant === PERSON ? ["Person", "Company"] : ["Company", "Person"];
  return [
    Object.hasOwn(other.properties, field)
      ? `${field} is a field of the ${its} variant, not of the ${self} variant`
      : `${nameOf(field)} is not a field of the ${self} variant`,
  ];
}

function fieldProblems(
  field: string,
  value: unknown,
  schema: FieldSchema,
  tenant: TenantRules,
): string[] {
  switch (schema.type) {
    case "string":
      return stringProblems(field, value, schema, tenant);
    case "boolean":
      return typeof value === "boolean" ? [] : [`${field} must be a boolean, not ${kindOf(value)}`];
    case "array":
      return arrayProblems(field, value, schema, tenant);
  }
}

function arrayProblems(
  field: string,
  value: unknown,
  schema: ArraySchema,
  tenant: TenantRules,
): string[] {
  if (!Array.isArray(value)) return [`${field} must be an array of strings, not ${kindOf(value)}`];
  const list = schema.items["x-tenant-values"];
  const problems = value.flatMap((item: unknown, index) =>
    stringProblems(`${field}[${index}]`, item, schema.items, tenant),
  );
  if (list !== undefined) {
    if (!tenant[list].multiSelect && value.length > 1)
      problems.push(`${field} takes one value only`);
    if (tenant[list].isRequired && value.length === 0) problems.push(`${field} needs a value`);
  }
  return problems;
}

function stringProblems(
  field: string,
  value: unknown,
  schema: StringSchema,
  tenant?: TenantRules,
): string[] {
  if (typeof value !== "string") return [`${field} must be a string, not ${kindOf(value)}`];
  if (!value.isWellFormed()) return [`${field} must be well-formed Unicode`];
  const problems: string[] = [];
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    problems.push(`${field} must be one of ${schema.enum.join(", ")}`);
  }
  const list = schema["x-tenant-values"];
  if (list !== undefined && tenant !== undefined && !tenant[list].values.includes(value)) {
    problems.push(`${field} is not in the client's list for ${list} (see schema-config)`);
  }
  if (value.length < (schema.minLength ?? 0)) problems.push(`${field} must not be empty`);
  if (schema.maxLength !== undefined && exceeds(value, schema.maxLength)) {
    problems.push(`${field} must have at most ${schema.maxLength} characters`);
  }
  if (schema.format !== undefined && !FORMATS[schema.format].holds(value)) {
    problems.push(`${field} ${FORMATS[schema.format].rule}`);
  } else if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)) {
    problems.push(`${field} must match ${schema.pattern}`);
  }
  return problems;
}

/** Counts Unicode code points, as JSON Schema does: an emoji is one character. */
function exceeds(text: string, max: number): boolean {
  return text.length > max && Array.from(text).length > max;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a ${typeof value}`.replace("a object", "an object");
}

/** The name comes from the caller: it is quoted and cut to 50 characters. */
function nameOf(field: string): string {
  return JSON.stringify(field.length > 50 ? `${field.slice(0, 50)}…` : field);
}

function withDefaults(given: Record<string, unknown>, variant: VariantSchema): BusinessRelation {
  const fields = Object.entries(variant.properties).flatMap(([field, schema]) => {
    if (Object.hasOwn(given, field)) return [[field, given[field]] as const];
    return "default" in schema ? [[field, schema.default] as const] : [];
  });
  return Object.fromEntries(fields) as BusinessRelation;
}
