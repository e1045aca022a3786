import { COMPANY_TYPES, PERSON_TYPE } from "../service-spec/value-lists.ts";
import { COMPANY, PERSON } from "./relation-schema.ts";
import type { UnknownFields } from "./validate-relation.ts";

export const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });

export function openApiSchemas(unknownFields: UnknownFields): Record<string, object> {
  const open = unknownFields === "ignore";
  return {
    BusinessRelation: {
      oneOf: [ref("Person"), ref("Company")],
      discriminator: {
        propertyName: "type",
        mapping: Object.fromEntries([
          [PERSON_TYPE, "#/components/schemas/Person"],
          ...COMPANY_TYPES.map((type) => [type, "#/components/schemas/Company"]),
        ]) as object,
      },
    },
    Person: { ...PERSON, additionalProperties: open },
    Company: { ...COMPANY, additionalProperties: open },
    ...otherSchemas,
  };
}

const text = { type: "string" };

const otherSchemas: Record<string, object> = {
  BusinessRelationPage: {
    type: "object",
    required: ["businessRelations"],
    properties: {
      businessRelations: { type: "array", items: ref("BusinessRelation") },
      nextCursor: { type: ["string", "null"], description: "null when no more remain." },
    },
  },
  WriteResponse: {
    type: "object",
    properties: { crmCode: text, status: { ...text, examples: ["created", "updated"] } },
  },
  TenantBusinessRelationSchemaResponse: {
    type: "object",
    properties: {
      fields: { type: "object", additionalProperties: ref("BusinessRelationSchemaField") },
    },
  },
  BusinessRelationSchemaField: {
    type: "object",
    properties: {
      type: text,
      values: { type: "array", items: text },
      isRequired: { type: "boolean" },
      multiSelect: { type: "boolean" },
    },
  },
  ErrorResponse: {
    type: "object",
    properties: { error: text, code: { type: "integer" } },
  },
  BlockedResponse: {
    type: "object",
    properties: {
      error: { const: "FORBIDDEN" },
      message: text,
      code: { const: "IP_WHITELIST_BLOCKED" },
      ip: text,
      timestamp: { type: "string", format: "date-time" },
    },
  },
};
