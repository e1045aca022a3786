/** Dataverse's Web API: access, addresses, pages, and the columns of a table. */
import { isObject, type Json } from "./json-value.ts";
import {
  NO_LIST,
  pluralOf,
  sameOrigin,
  toPage,
  type ListedPage,
  type NotListed,
} from "./record-lister.ts";
import { addressOf, type NotRead, type RecordApi } from "./record-reader.ts";

export const NEEDS = [
  "DYNAMICS_URL",
  "DYNAMICS_TENANT_ID",
  "DYNAMICS_CLIENT_ID",
  "DYNAMICS_CLIENT_SECRET",
];

export const FORMATTED = "@OData.Community.Display.V1.FormattedValue";
export const ANNOTATIONS = `odata.include-annotations="${FORMATTED.slice(1)}"`;

/** Preferences of a request for pages. */
export const PAGED = `${ANNOTATIONS},odata.maxpagesize=1000`;

/** A query fails for a column that the table does not have: one record shows all of them. */
export async function tableOf(api: RecordApi, object: string, fields: ReadonlySet<string>) {
  const access = await accessTo(api);
  if (!("headers" in access)) return access;
  const address = setAddress(api, object);
  const one = await api.get(`${address}?$top=1`, access.headers);
  if (one.kind === "not_found") return noTable(object, one.code);
  if (one.kind !== "found") return one;
  const { value } = one.body;
  if (!Array.isArray(value)) return NO_LIST;
  const sample: unknown = value[0];
  const columns = isObject(sample) ? Object.keys(sample) : [];
  const wanted = new Set([...fields].map((name) => name.replace(/@.*/, "")));
  const key = `${object}id`;
  const names = columns.filter((name) => wanted.has(name) && name !== key);
  return { kind: "table" as const, address, key, select: [key, ...names].join(",") };
}

/** The Web API leaves out the formatted value of an empty column. */
export function withAnnotations(record: Json, fields: ReadonlySet<string>): Json {
  const empty = [...fields].filter(
    (name) => name.endsWith(FORMATTED) && record[name.slice(0, -FORMATTED.length)] === null,
  );
  return { ...Object.fromEntries(empty.map((name) => [name, null])), ...record };
}

export async function accessTo(
  api: RecordApi,
): Promise<{ headers: Record<string, string> } | NotRead> {
  const login = addressOf(
    api.setting("DYNAMICS_LOGIN_URL"),
    "",
    api.setting("DYNAMICS_TENANT_ID"),
    "oauth2",
    "v2.0",
    "token",
  );
  const token = await api.token(login, {
    client_id: api.setting("DYNAMICS_CLIENT_ID"),
    client_secret: api.setting("DYNAMICS_CLIENT_SECRET"),
    scope: `${baseOf(api)}/.default`,
  });
  if (typeof token !== "string") return token;
  return {
    headers: {
      authorization: `Bearer ${token}`,
      "odata-maxversion": "4.0",
      "odata-version": "4.0",
      prefer: ANNOTATIONS,
    },
  };
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
  const access = await accessTo(api);
  if (!("headers" in access)) return access;
  let delta: unknown;
  const page = toPage(await api.get(url, { ...access.headers, prefer }), key, (body) => {
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

export const baseOf = (api: RecordApi): string => api.setting("DYNAMICS_URL").replace(/\/+$/, "");

/** The address of a table, by the entity set name that Dataverse forms by default. */
export const setAddress = (api: RecordApi, table: string): string =>
  addressOf(baseOf(api), "/api/data/v9.2", pluralOf(table));

const noTable = (table: string, code = ""): NotRead => ({
  kind: "client_error",
  reason: `HTTP 404 ${code} for ${pluralOf(table)}`,
});
