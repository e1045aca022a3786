/** Related records of Twenty: a list by a relation's id (`companyId`), or by ids. */
import { isReadable } from "./record-reader.ts";
import type { RelationReader } from "./relation-reader.ts";
import { listPage } from "./twenty-api.ts";

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const twentyRelations: RelationReader = {
  idField: () => "id",
  // Servers often allow addresses of 8 KB.
  most: 100,
  async find(api, { field, object, values }, cursor) {
    // One value that is no UUID makes Twenty refuse all of them.
    const ids = values.filter((id) => UUID.test(id)).map((id) => `"${id}"`);
    if (ids.length === 0 || !isReadable(field)) {
      return { kind: "page", records: [], next: undefined, total: 0 };
    }
    const filter = `${field}[in]:[${ids.join(",")}]`;
    const page = await listPage(api, object, { filter }, cursor);
    // Twenty leaves out fields of large objects. Without this one, the owner of a record is not known.
    const isShown = page.kind !== "page" || page.records.every(({ record }) => field in record);
    return isShown ? page : { kind: "client_error", reason: `${object} comes without ${field}` };
  },
};
