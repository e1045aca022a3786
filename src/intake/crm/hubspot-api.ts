/**
 * HubSpot's API: addresses, pages, and the properties of an object. Its paths name a version by date, of which HubSpot
 * publishes one each March and September and supports each for 18 months; the older paths, `/crm/v3/…`, end in
 * September 2027.
 */
import { isObject } from "../../core/event/problem.ts";
import { textOf, type Json, valueAt } from "./json-value.ts";
import {
  objectsIn,
  toPage,
  type ListedPage,
  type NotListed,
  NO_LIST,
  withRecords,
  type RelationReader,
} from "./record-lister.ts";
import { addressOf, type ApiResult, type NotRead, type RecordApi } from "./record-reader.ts";

/** The version of every path that crmsync asks HubSpot for. */
export const HUBSPOT_VERSION = "2026-09";

/** The records of an object, or one of them. */
export const objectsAddress = (api: RecordApi, object: string, ...recordId: string[]): string =>
  addressOf(base(api), `/crm/objects/${HUBSPOT_VERSION}`, PLURALS[object] ?? object, ...recordId);

/** The properties that an object has, each with its `name`, under `results`. */
export const propertiesAddress = (api: RecordApi, object: string): string =>
  addressOf(base(api), `/crm/properties/${HUBSPOT_VERSION}`, PLURALS[object] ?? object);

/** Which records of one object belong to those of another. */
function associationsAddress(api: RecordApi, object: string, other: string): string {
  const [from = "", to = ""] = [object, other].map((name) => PLURALS[name] ?? name);
  const path = `/crm/associations/${HUBSPOT_VERSION}`;
  return addressOf(base(api), path, from, to, "batch", "read");
}

export const hubspotHeaders = (api: RecordApi): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${api.setting("HUBSPOT_TOKEN")}`,
});

const base = (api: RecordApi): string => api.setting("HUBSPOT_API_URL");

export const PLURALS: Readonly<Record<string, string>> = {
  contact: "contacts",
  company: "companies",
};

/** A page of the list of an object: a search would end at 10,000 records. @param query which records, with what */
export async function listPage(
  api: RecordApi,
  object: string,
  query: Readonly<Record<"archived" | "properties", string>>,
  after: string | undefined,
): Promise<ListedPage | NotListed> {
  const asked = new URLSearchParams({ limit: "100", ...query, ...(after && { after }) });
  const url = `${objectsAddress(api, object)}?${asked.toString()}`;
  return pageOf(await api.get(url, hubspotHeaders(api)));
}

/** One page of a list or of a search; `next` is where the next one begins. */
export const pageOf = (result: ApiResult): ListedPage | NotListed =>
  toPage(result, "id", ({ results: list, paging }) => {
    const next = isObject(paging) ? paging["next"] : undefined;
    if (next === undefined || next === null) return { list, next: undefined };
    return isObject(next) ? { list, next: next["after"] ?? "" } : undefined;
  });

export interface Asked {
  readonly api: RecordApi;
  readonly object: string;
  /** Of the properties that the mapping reads. */
  readonly names: readonly string[];
  /** All that the object has. */
  readonly known: ReadonlySet<string>;
}

/** HubSpot returns only the properties named, and ignores names that it does not know. */
export const propertiesOf = (fields: ReadonlySet<string>): string[] =>
  [...fields].filter((name) => /^[a-z][a-z0-9_]*$/.test(name));

export const lacking = ({ properties }: Json, names: readonly string[]): string[] =>
  isObject(properties) ? names.filter((name) => !Object.hasOwn(properties, name)) : [];

/** A property that the object has, and that the answer lacks, is empty; any other is not known. */
export function withEmpty(
  record: Json,
  names: readonly string[],
  known: ReadonlySet<string>,
): Json {
  const empty = lacking(record, names).filter((name) => known.has(name));
  if (empty.length === 0) return record;
  const nulls = Object.fromEntries(empty.map((name) => [name, null]));
  return { ...record, properties: { ...(record["properties"] as Json), ...nulls } };
}

/** How long the properties of an object count as known, ms. */
const SCHEMA_KEPT_MS = 300_000;

/** The names of an object's properties; none where they are not there, or the token may not read them. */
export async function schemaOf(api: RecordApi, object: string): Promise<Set<string> | NotRead> {
  const headers = hubspotHeaders(api);
  const result = await api.get(propertiesAddress(api, object), headers, SCHEMA_KEPT_MS);
  const isRefused = result.kind === "client_error" && result.reason.startsWith("HTTP 403");
  if (result.kind !== "found" && result.kind !== "not_found" && !isRefused) return result;
  const properties = objectsIn(result, "results");
  return new Set(Array.isArray(properties) ? properties.map(({ name }) => textOf(name)) : []);
}

/** Asked for no property, HubSpot would return a few of its own choice, and all others would count as empty. */
export const NO_PROPERTIES: NotRead = {
  kind: "client_error",
  reason: "the mapping names no properties to ask HubSpot for; a module must export them as reads",
};

/** The most that HubSpot takes in one batch. */
const MOST = 100;

export const hubspotRelations: RelationReader = {
  idField: () => "id",
  most: MOST,
  async find(api, { field, fields, object, values }) {
    if (field !== "id") {
      const reason = `HubSpot keeps associations apart: under \`with\` write ${object} without the field ${field}, and \`of: true\``;
      return { kind: "client_error", reason };
    }
    const properties = propertiesOf(fields);
    if (properties.length === 0) return NO_PROPERTIES;
    const known = await schemaOf(api, object);
    if (!(known instanceof Set)) return known;
    const batch = await readBatch(api, objectsAddress(api, object, "batch", "read"), {
      properties,
      inputs: values.map((id) => ({ id })),
    });
    if (batch.kind !== "found") return batch;
    const page = toPage(batch, "id", ({ results: list }) => {
      return { list, next: undefined };
    });
    return withRecords(page, (record) => withEmpty(record, properties, known));
  },
  async associated(api, object, ids, other) {
    const found = new Map<string, unknown[]>(ids.map((id) => [id, []]));
    let inputs: { id: string; after?: string }[] = ids.map((id) => ({ id }));
    while (inputs.length > 0) {
      const content = { inputs: inputs.slice(0, MOST) };
      const batch = await readBatch(api, associationsAddress(api, object, other), content);
      if (batch.kind !== "found") return batch;
      inputs = inputs.slice(MOST);
      for (const result of batch.body["results"] as unknown[]) {
        const id = textOf(at(result, "from", "id"));
        const to = at(result, "to");
        if (!found.has(id) || !Array.isArray(to)) return NO_LIST;
        found.get(id)?.push(...(to as unknown[]));
        const after = textOf(at(result, "paging", "next", "after"));
        if (after !== "") inputs.push({ id, after });
      }
    }
    return new Map([...found].map(([id, to]) => [id, inOrder(to)]));
  },
};

const at = (value: unknown, ...path: readonly string[]): unknown => valueAt(value, path);

/** The ids: the primary one first, then the oldest, since they grow. */
function inOrder(associations: readonly unknown[]): string[] {
  const isOther = (one: unknown) => !/"label":"Primary"/.test(JSON.stringify(one));
  return associations
    .map((one) => ({ id: textOf(at(one, "toObjectId")), rank: Number(isOther(one)) }))
    .toSorted((a, b) => a.rank - b.rank || Number(a.id) - Number(b.id))
    .map(({ id }) => id);
}

/** What of a batch does not exist, or has no association, is an error of its own. */
async function readBatch(api: RecordApi, url: string, body: object) {
  const result = await api.post(url, hubspotHeaders(api), body);
  if (result.kind !== "found") return result;
  const { errors = [], results } = result.body;
  if (!Array.isArray(results) || !Array.isArray(errors)) return NO_LIST;
  const isMissing = (error: unknown) =>
    at(error, "category") === "OBJECT_NOT_FOUND" ||
    textOf(at(error, "subCategory")).endsWith("NO_ASSOCIATIONS_FOUND");
  if (errors.every(isMissing)) return result;
  const reason = "HubSpot could not read all records of a batch";
  return { kind: "unavailable", reason } as const;
}
