/** Dataverse's Web API: access, addresses, pages, the columns of a table, and related rows. */
import type { Json } from "./json-value.ts";
import {
  objectsIn,
  pluralOf,
  sameOrigin,
  toPage,
  withRecords,
  type ListedPage,
  type NotListed,
  type RelationReader,
} from "./record-lister.ts";
import {
  addressOf,
  isReadable,
  type ApiResult,
  type NotRead,
  type RecordApi,
} from "./record-reader.ts";

export const FORMATTED = "@OData.Community.Display.V1.FormattedValue";
const ANNOTATIONS = `odata.include-annotations="${FORMATTED.slice(1)}"`;

/** Preferences of a request for pages. */
export const PAGED = `${ANNOTATIONS},odata.maxpagesize=1000`;

export interface Table {
  readonly kind: "table";
  readonly address: string;
  readonly key: string;
  /** The columns to ask for: the key, and those of these fields that the table has. */
  readonly select: (fields: Iterable<string>) => string;
}

/** A query fails for a column that the table does not have: one record shows all of them. */
export async function tableOf(api: RecordApi, object: string): Promise<Table | NotListed> {
  const address = setAddress(api, object);
  const one = await get(api, `${address}?$top=1`);
  if (one.kind === "not_found") return noTable(object, one.code);
  const rows = objectsIn(one, "value");
  if (!Array.isArray(rows)) return rows;
  const columns = Object.keys(rows[0] ?? {});
  const key = `${object}id`;
  return {
    kind: "table",
    address,
    key,
    select(fields) {
      const wanted = new Set([...fields].map((name) => name.replace(/@.*/, "")));
      return [key, ...columns.filter((name) => wanted.has(name) && name !== key)].join(",");
    },
  };
}

/** The Web API leaves out the formatted value of an empty column. */
export function withAnnotations(record: Json, fields: ReadonlySet<string>): Json {
  const empty = [...fields].filter(
    (name) => name.endsWith(FORMATTED) && record[name.slice(0, -FORMATTED.length)] === null,
  );
  return { ...Object.fromEntries(empty.map((name) => [name, null])), ...record };
}

/** @param prefer the preferences of the request */
export async function get(
  api: RecordApi,
  address: string,
  prefer: string = ANNOTATIONS,
): Promise<ApiResult> {
  const login = api.setting("DYNAMICS_LOGIN_URL");
  const tenant = api.setting("DYNAMICS_TENANT_ID");
  const token = await api.token(addressOf(login, "", tenant, "oauth2", "v2.0", "token"), {
    client_id: api.setting("DYNAMICS_CLIENT_ID"),
    client_secret: api.setting("DYNAMICS_CLIENT_SECRET"),
    scope: `${baseOf(api)}/.default`,
  });
  if (typeof token !== "string") return token;
  const authorization = `Bearer ${token}`;
  return api.get(address, {
    authorization,
    "odata-maxversion": "4.0",
    "odata-version": "4.0",
    prefer,
  });
}

/**
 * One page of a table, or of its changes: the last one may have a `delta`, the link for the next changes.
 * @param toRow gives a row its key.
 */
export async function pageOf(
  api: RecordApi,
  url: string,
  key: string,
  { prefer = PAGED, toRow = (row: unknown) => row } = {},
): Promise<(ListedPage & { readonly delta?: string }) | NotListed> {
  let delta: unknown;
  const page = toPage(await get(api, url, prefer), key, (body) => {
    const { value, "@odata.nextLink": next, "@odata.count": total } = body;
    delta = body["@odata.deltaLink"];
    return { list: Array.isArray(value) ? value.map(toRow) : value, next, total };
  });
  if (page.kind !== "page" || (page.next ?? delta) === undefined) return page;
  const link = ownLink(api, page.next ?? delta);
  if (typeof link !== "string") return link;
  return page.next === undefined ? { ...page, delta: link } : { ...page, next: link };
}

export const ownLink = (api: RecordApi, link: unknown): string | NotListed =>
  sameOrigin(link, baseOf(api), "/api/data/");

const baseOf = (api: RecordApi): string => api.setting("DYNAMICS_URL").replace(/\/+$/, "");

/** The address of what the Web API has at a path. */
export const dataAddress = (api: RecordApi, path: string): string =>
  `${baseOf(api)}/api/data/v9.2/${path}`;

/** The address of a table, by the entity set name that Dataverse forms by default. */
export const setAddress = (api: RecordApi, table: string): string =>
  addressOf(baseOf(api), "/api/data/v9.2", pluralOf(table));

const noTable = (table: string, code = ""): NotRead => ({
  kind: "client_error",
  reason: `HTTP 404 ${code} for ${pluralOf(table)}`,
});

/** Rows come with all of their columns. */
const FEW = `${ANNOTATIONS},odata.maxpagesize=200`;

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A query by a lookup column (`_parentcustomerid_value`), or by keys. */
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
