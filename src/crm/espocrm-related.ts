/** Related records of EspoCRM: a list by a link's id (`accountId`), or by ids. */
import { headersOf } from "./espocrm-api.ts";
import { toPage } from "./record-lister.ts";
import { addressOf } from "./record-reader.ts";
import type { RelationReader } from "./relation-reader.ts";

/** EspoCRM's own limit, unless its administrator has set another one. */
const RECORDS_A_PAGE = 200;

export const espocrmRelations: RelationReader = {
  idField: () => "id",
  most: 50,
  async find(api, { field, object, values }, cursor) {
    const offset = Number(cursor ?? 0);
    const query = new URLSearchParams({
      maxSize: String(RECORDS_A_PAGE),
      offset: String(offset),
      orderBy: "id",
      order: "asc",
      "where[0][type]": "in",
      "where[0][attribute]": field,
    });
    for (const value of values) query.append("where[0][value][]", value);
    const url = `${addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object)}?${query.toString()}`;
    return toPage(await api.get(url, headersOf(api)), "id", ({ list, total }) => {
      if (!Array.isArray(list) || typeof total !== "number") return undefined;
      const next = offset + list.length;
      return { list, total, next: list.length > 0 && next < total ? String(next) : undefined };
    });
  },
};
