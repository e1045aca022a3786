import { API_PREFIX } from "../core/service-spec/limits.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../core/service-spec/value-lists.ts";
import { LIST_PARAMETERS } from "./list-parameters.ts";
import {
  NAMED_ENDPOINTS,
  SPECIFIED_ENDPOINTS,
  type BusinessRelationsOperation,
} from "./operations.ts";
import { COMPANY, PERSON } from "./relation-schema.ts";
import type { UnknownFields } from "./validate-relation.ts";

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly object[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}

/** The OpenAPI document. Its schemas are the objects that the validator uses. */
export function openApiDocument(unknownFields: UnknownFields) {
  const paths: Record<string, Record<string, Operation>> = {};
  const add = (path: string, method: string, described: Operation, list = false): void => {
    const parameters = parametersOf(path, list);
    (paths[path] ??= {})[method.toLowerCase()] = { ...described, parameters };
  };
  for (const { method, path, operation } of SPECIFIED_ENDPOINTS) {
    add(path, method, DESCRIBED[operation], operation === "list");
  }
  for (const { method, path, purpose } of NAMED_ENDPOINTS) {
    add(path, method, {
      operationId: `${method.toLowerCase()}${path.replace(/[^a-z]+(.)?/gi, (_, next: string) => next?.toUpperCase() ?? "")}`,
      summary: purpose,
      tags: ["Named only"],
      responses: { "501": errorContent("Not implemented"), ...everywhere },
    });
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Business Relations Service (sandbox)",
      version: "1.1.0",
      description:
        "Persons and companies of a wealth manager's clients. The business-relations endpoints " +
        "are served as specified; the others are known by name only and return 501.",
    },
    servers: [{ url: API_PREFIX }],
    security: [{ bearer: [] }],
    tags: [
      { name: "Business relations", description: "Specified and served." },
      {
        name: "Named only",
        description: "The specification names them without their shapes: they return 501.",
      },
    ],
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
      schemas: openApiSchemas(unknownFields),
    },
  };
}

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });

const content = (name: string): object => ({ "application/json": { schema: ref(name) } });
const response = (description: string, name: string) => ({ description, content: content(name) });
const errorContent = (description: string) => response(description, "ErrorResponse");

/** Responses that every operation may give. */
const everywhere = {
  "401": errorContent("Missing or invalid token"),
  "403": response("Source address not on the client's allow-list", "BlockedResponse"),
  "429": {
    ...errorContent("Rate limit exceeded"),
    headers: Object.fromEntries(
      [
        ["X-RateLimit-Limit", "Total hourly quota"],
        ["X-RateLimit-Remaining", "Requests left in the current hour"],
        ["X-RateLimit-Reset", "UNIX timestamp at which the quota resets"],
        ["Retry-After", "Seconds to wait before retrying, or an HTTP date"],
      ].map(([name, description]) => [name, { description, schema: { type: "string" } }]),
    ) as object,
  },
  "500": errorContent("Internal server error"),
};

type Responses = Operation["responses"];

const reads = (operationId: string, summary: string, responses: Responses): Operation => ({
  operationId,
  summary,
  tags: ["Business relations"],
  responses: { ...responses, ...everywhere },
});

const writes = (operationId: string, summary: string, responses: Responses): Operation => ({
  ...reads(operationId, summary, {
    ...responses,
    "400": errorContent("Invalid input"),
    "413": errorContent("Body too large"),
    "415": errorContent("Body not application/json"),
  }),
  requestBody: { required: true, content: content("BusinessRelation") },
});

const NOT_FOUND = { "404": errorContent("Business relation not found") };

const DESCRIBED: Record<BusinessRelationsOperation, Operation> = {
  "schema-config": reads("getSchemaConfig", "Fields whose allowed values the client configured", {
    "200": response("The client's value lists", "TenantBusinessRelationSchemaResponse"),
  }),
  list: reads("listBusinessRelations", "List business relations, page by page", {
    "200": response("One page", "BusinessRelationPage"),
    "400": errorContent("Invalid cursor"),
    "422": errorContent("Invalid parameters"),
  }),
  create: writes("createBusinessRelation", "Create a business relation", {
    "201": response("Created", "WriteResponse"),
    "409": errorContent("A business relation with this crmCode already exists"),
  }),
  get: reads("getBusinessRelation", "Retrieve one business relation", {
    "200": response("The business relation", "BusinessRelation"),
    ...NOT_FOUND,
  }),
  update: writes("updateBusinessRelation", "Replace an existing business relation", {
    "200": response("Updated", "WriteResponse"),
    ...NOT_FOUND,
  }),
};

function parametersOf(path: string, isList: boolean): object[] {
  if (isList) return LIST_PARAMETERS.map((one) => ({ ...one, in: "query", required: false }));
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: "path", required: true, schema: { type: "string" } };
  });
}

function openApiSchemas(unknownFields: UnknownFields): Record<string, object> {
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
