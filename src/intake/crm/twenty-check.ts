/** How Twenty describes itself, by its Metadata API: it needs a role that may see data model and webhooks. */
import { isObject } from "../../core/event/problem.ts";
import type { CrmChecker } from "./crm-check.ts";
import { textOf, type Json } from "./json-value.ts";
import { NO_LIST, toPage } from "./record-lister.ts";
import { addressOf, UNKNOWN_OBJECT, type ApiResult, type RecordApi } from "./record-reader.ts";
import { headersOf, pluralName } from "./twenty-api.ts";

/** Most pages of objects, 60 each. */
const MOST_PAGES = 10;

export const twentyChecker: CrmChecker = {
  actions: ["created", "updated", "deleted"],
  rare: ["restored", "destroyed"],
  place: "Settings → APIs & Webhooks",
  right: (object) => `a role that may read ${object} records and see the data model`,
  fieldName: ([name]) => name,

  async fields(api, object) {
    let after = "";
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const page = toPage(await get(api, `metadata/objects?limit=60${after}`), "id", (body) => {
        const { hasNextPage, endCursor } = isObject(body["pageInfo"]) ? body["pageInfo"] : {};
        return {
          list: listIn(body, "objects"),
          next: hasNextPage === true ? endCursor : undefined,
        };
      });
      if (page.kind !== "page") return page;
      const found = page.records.find(({ record }) => record["nameSingular"] === object);
      if (found !== undefined) return fieldsIn(found.record);
      if (page.next === undefined) break;
      after = `&starting_after=${page.next}`;
    }
    return UNKNOWN_OBJECT;
  },

  probe: (api, object) => get(api, `${pluralName(object)}?limit=1&depth=0`),

  async sent(api) {
    const result = await get(api, "metadata/webhooks?limit=60");
    if (result.kind !== "found") return result;
    const webhooks = listIn(result.body, "webhooks");
    if (!Array.isArray(webhooks)) return NO_LIST;
    const ours = webhooks
      .filter(isObject)
      .filter((one) => textOf(one["targetUrl"]).includes("/webhooks/twenty"));
    return new Set(ours.flatMap((one) => [one["operations"]].flat().map(textOf)));
  },
};

/** A relation has its id beside the record: `companyId` of `company`. */
function fieldsIn({ fields }: Json): ReadonlyMap<string, string> {
  const all: unknown[] = Array.isArray(fields) ? fields : [];
  const active = all.filter(isObject).filter(({ isActive }) => isActive !== false);
  const types = active.map(({ name, type }) => [textOf(name), textOf(type)] as const);
  const relations = types.filter(([, type]) => type === "RELATION");
  return new Map([...types, ...relations.map(([name]) => [`${name}Id`, "UUID"] as const)]);
}

/** Its releases give a list as `data`, as `data.<name>`, or bare. */
const listIn = ({ data, list }: Json, name: string): unknown =>
  list ?? (isObject(data) ? data[name] : data);

const get = (api: RecordApi, path: string): Promise<ApiResult> =>
  api.get(`${addressOf(api.setting("TWENTY_API_URL"), "/rest")}/${path}`, headersOf(api));
