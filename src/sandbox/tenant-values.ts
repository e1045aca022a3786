import { DEFAULT_TENANT_VALUES, type TenantField } from "../core/service-spec/value-lists.ts";
import { AdministrationError } from "./database.ts";
import { COMPANY } from "./relation-schema.ts";
import type { TenantFieldRule, TenantRules } from "./validate-relation.ts";

/** The spec leaves branches to each organisation: a new tenant starts with these. */
const SAMPLE_BRANCHES = ["geneva", "luxembourg", "zurich"];

const TENANT_FIELDS = Object.keys(DEFAULT_TENANT_VALUES) as TenantField[];

const dataType = (field: TenantField): "array" | "string" =>
  COMPANY.properties[field]!.type === "array" ? "array" : "string";

const rule = (field: TenantField, values: readonly string[]): TenantFieldRule => ({
  values,
  isRequired: false,
  multiSelect: dataType(field) === "array",
});

export const defaultRules: TenantRules = {
  service: rule("service", DEFAULT_TENANT_VALUES.service),
  branch: rule("branch", SAMPLE_BRANCHES),
  industrySector: rule("industrySector", DEFAULT_TENANT_VALUES.industrySector),
  complexityOfBoStructure: rule(
    "complexityOfBoStructure",
    DEFAULT_TENANT_VALUES.complexityOfBoStructure,
  ),
};

/** Spec: TenantBusinessRelationSchemaResponse. */
export function schemaConfig(rules: TenantRules): object {
  const fields = TENANT_FIELDS.map((field) => {
    const { values, isRequired, multiSelect } = rules[field];
    return [field, { type: dataType(field), values, isRequired, multiSelect }];
  });
  return { fields: Object.fromEntries(fields) as object };
}

/**
 * Reads a tenant's own lists: `{"branch": ["a", "b"], "service": {"values": […], "isRequired": true}}`,
 * or a whole schema-config response (`{"fields": {…}}`). Fields left out keep their list.
 */
export function parseTenantValues(text: string): Map<TenantField, TenantFieldRule> {
  const json = parseJson(text);
  const given = isObject(json) && isObject(json["fields"]) ? json["fields"] : json;
  if (!isObject(given)) throw new AdministrationError("the values must be a JSON object of fields");
  return new Map(
    Object.entries(given).map(([name, value]) => {
      const field = TENANT_FIELDS.find((known) => known === name);
      if (field === undefined) {
        throw new AdministrationError(
          `${name} has no list of its own; the fields that have one: ${TENANT_FIELDS.join(", ")}`,
        );
      }
      return [field, parseRule(field, Array.isArray(value) ? { values: value } : value)] as const;
    }),
  );
}

function parseRule(field: TenantField, value: unknown): TenantFieldRule {
  if (!isObject(value))
    throw new AdministrationError(`${field} must be a list of values or an object`);
  const { values, isRequired = false, multiSelect = dataType(field) === "array" } = value;
  if (!Array.isArray(values) || !values.every((item) => typeof item === "string")) {
    throw new AdministrationError(`${field}: values must be an array of strings`);
  }
  if (values.length === 0) {
    throw new AdministrationError(
      `${field}: values must not be empty: the specification does not say whether an empty list allows any value or none`,
    );
  }
  if (typeof isRequired !== "boolean" || typeof multiSelect !== "boolean") {
    throw new AdministrationError(`${field}: isRequired and multiSelect must be booleans`);
  }
  if (multiSelect && dataType(field) === "string") {
    throw new AdministrationError(`${field} takes one value: multiSelect must be false`);
  }
  return { values: [...new Set(values)], isRequired, multiSelect };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AdministrationError("the values are not valid JSON");
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
