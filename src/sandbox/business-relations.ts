import { API_PREFIX } from "../core/service-spec/limits.ts";
import type { Cursors } from "./cursors.ts";
import type { Client } from "./directory.ts";
import { parseListParameters } from "./list-parameters.ts";
import type { RelationStore } from "./relation-store.ts";
import { error, json, problems, type ServiceResponse } from "./responses.ts";
import { schemaConfig } from "./tenant-values.ts";
import { validateRelation, type UnknownFields } from "./validate-relation.ts";

export type BusinessRelations = ReturnType<typeof createBusinessRelations>;

/** The five operations of the spec: each takes the data of a request and returns the response. */
export function createBusinessRelations(
  store: RelationStore,
  cursors: Cursors,
  unknownFields: UnknownFields,
) {
  return {
    schemaConfig: (client: Client): ServiceResponse => json(200, schemaConfig(client.rules)),

    list(client: Client, query: URLSearchParams): ServiceResponse {
      const parameters = parseListParameters(query, unknownFields);
      if ("problems" in parameters) return problems(422, "Invalid parameters", parameters.problems);
      const { cursor, pageSize, includeTerminated } = parameters;
      const place =
        cursor === undefined
          ? { from: 0, until: store.lastPosition(client.tenantId) }
          : cursors.read(client.tenantId, cursor);
      if (place === undefined) return error(400, "Invalid cursor");
      const page = store.page(client.tenantId, { ...place, size: pageSize, includeTerminated });
      const nextCursor =
        page.next === null
          ? null
          : cursors.write(client.tenantId, { from: page.next, until: place.until });
      return {
        status: 200,
        body: `{"businessRelations":[${page.bodies.join(",")}],"nextCursor":${JSON.stringify(nextCursor)}}`,
      };
    },

    get(client: Client, crmCode: string): ServiceResponse {
      const body = store.get(client.tenantId, crmCode);
      return body === undefined ? notFound() : { status: 200, body };
    },

    create(client: Client, body: unknown): ServiceResponse {
      const result = validateRelation(body, { tenant: client.rules, unknownFields });
      if (!result.ok) return problems(400, "Invalid input", result.problems);
      const { crmCode } = result.relation;
      if (!store.create(client.tenantId, result.relation)) {
        return error(409, "A business relation with this crmCode already exists");
      }
      const location = `${API_PREFIX}/business-relations/${pathSegment(crmCode)}`;
      return json(201, { crmCode, status: "created" }, { location });
    },

    update(client: Client, crmCode: string, body: unknown): ServiceResponse {
      const result = validateRelation(body, { tenant: client.rules, unknownFields });
      if (!result.ok) return problems(400, "Invalid input", result.problems);
      if (result.relation.crmCode !== crmCode) {
        return error(400, "Invalid input: crmCode must be the one in the path");
      }
      switch (store.replace(client.tenantId, result.relation)) {
        case "updated":
          return json(200, { crmCode, status: "updated" });
        case "absent":
          return notFound();
        case "other-variant":
          return error(400, "Invalid input: type cannot change between Person and Company");
      }
    },
  };
}

function notFound(): ServiceResponse {
  return error(404, "Business relation not found");
}

/** `schema-config` itself is the address of another operation. */
function pathSegment(crmCode: string): string {
  return crmCode === "schema-config" ? "schema%2Dconfig" : encodeURIComponent(crmCode);
}
