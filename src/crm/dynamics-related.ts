/** Related rows of Dataverse: a query by a lookup column (`_parentcustomerid_value`), or by keys. */
import { ANNOTATIONS, pageOf, setAddress, withAnnotations } from "./dynamics-api.ts";
import { withRecords } from "./record-lister.ts";
import { isReadable } from "./record-reader.ts";
import type { RelationReader } from "./relation-reader.ts";

/** Rows come with all of their columns. */
const FEW = `${ANNOTATIONS},odata.maxpagesize=200`;

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const dynamicsRelations: RelationReader = {
  idField: (table) => `${table}id`,
  // Dataverse takes few conditions in one filter, and every row comes with all of its columns.
  most: 40,
  async find(api, { field, fields, object, values }, cursor) {
    const filter = values.filter((id) => GUID.test(id)).map((id) => `${field} eq ${id}`);
    if (filter.length === 0 || !isReadable(field)) {
      return { kind: "page", records: [], next: undefined, total: 0 };
    }
    const first = `${setAddress(api, object)}?$filter=${encodeURIComponent(filter.join(" or "))}`;
    const page = await pageOf(api, cursor ?? first, `${object}id`, { prefer: FEW });
    return withRecords(page, (record) => withAnnotations(record, fields));
  },
};
