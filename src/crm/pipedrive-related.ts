/** Related records of Pipedrive: by their ids, or those of one person, organisation or deal. */
import { asSent, list, typesOf } from "./pipedrive-api.ts";
import { pluralOf, withRecords } from "./record-lister.ts";
import type { RelationReader } from "./relation-reader.ts";

/** The fields by which its lists can be filtered, one value at a time. */
const FILTERS: ReadonlySet<string> = new Set(["org_id", "person_id", "deal_id"]);

export const pipedriveRelations: RelationReader = {
  idField: () => "id",
  most: 100,
  async find(api, { field, fields, object, values }, cursor) {
    if (field !== "id" && !FILTERS.has(field)) {
      const reason = `Pipedrive finds ${object} by ${[...FILTERS].join(", ")} alone, not by ${field}`;
      return { kind: "client_error", reason };
    }
    const types = await typesOf(api, object, fields);
    if (!(types instanceof Map)) return types;
    // A list of the records of one value after the other: the cursor says which.
    const [place = "0", inner = ""] = (cursor ?? "0").split(/:(.*)/s);
    const index = Number(place);
    const by = field === "id" ? { ids: values.join(",") } : { [field]: values[index] ?? "" };
    const page = await list(api, pluralOf(object), "id", inner || undefined, by);
    if (page.kind !== "page") return page;
    const isLast = field === "id" || index + 1 >= values.length;
    const after = isLast ? undefined : `${index + 1}`;
    const next = page.next === undefined ? after : `${place}:${page.next}`;
    return withRecords({ ...page, next }, (record) => asSent(record, types));
  },
};
