/** Related records of Salesforce: a query by a lookup field, or by ids. */
import type { RelationReader } from "./relation-reader.ts";
import { fieldsOf, pageOf, queryAddress } from "./salesforce.ts";

/** How long the fields of an object count as known, ms. */
const FIELDS_KEPT_MS = 300_000;

export const salesforceRelations: RelationReader = {
  idField: () => "Id",
  // An address may have 16,000 characters.
  most: 200,
  async find(api, { field, fields, object, values }, cursor) {
    if (cursor !== undefined) return pageOf(api, cursor);
    const names = await fieldsOf(api, object, FIELDS_KEPT_MS);
    if (!Array.isArray(names)) return names;
    if (field !== "Id" && !names.includes(field)) {
      const reason = `${object} has no field ${field}, or the app may not read it`;
      return { kind: "client_error", reason };
    }
    const wanted = names.filter((name) => name !== "Id" && (fields.has(name) || name === field));
    const list = values.map((value) => `'${value}'`).join(",");
    const query = `SELECT ${["Id", ...wanted].join(",")} FROM ${object} WHERE ${field} IN (${list})`;
    return pageOf(api, queryAddress(api, "query", query));
  },
};
