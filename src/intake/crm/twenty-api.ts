/** Reads and lists Twenty's records, finds related ones, and asks what has changed. */
import { isObject } from "../../core/event/problem.ts";
import { changesByTime, toTimedPage, type PulledChange } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { timeOf, type Json } from "./json-value.ts";
import {
  pluralOf,
  toPage,
  type ListedRecord,
  type NotListed,
  type RelationReader,
} from "./record-lister.ts";
import {
  addressOf,
  isReadable,
  isRecordNotFound,
  toFetchedRecord,
  type ApiResult,
  type RecordApi,
} from "./record-reader.ts";

export const twentyRecords: Omit<CrmSource, "name"> = {
  needs: ["TWENTY_API_URL", "TWENTY_API_KEY"],
  // Twenty allows 100 requests a minute.
  pauseMs: 700,

  /** For records that are read together with related ones: webhooks bring theirs. */
  reader: {
    async fetchRecord(api, object, recordId) {
      const result = await api.get(`${addressFor(api, object, recordId)}?depth=0`, headersOf(api));
      return toFetchedRecord(result, {
        recordId,
        at: ["data", object],
        id: "id",
        modifiedAt: changedAt,
        isDeleted: ({ deletedAt }) => timeOf(deletedAt) !== undefined,
        isAboutRecord: ({ body }) => isRecordNotFound(body),
      });
    },
  },

  async open(api, object, fields) {
    const query = await queryFor(api, object, fields);
    if ("kind" in query) return query;
    return {
      kind: "records",
      list: (cursor) => listPage(api, object, query, cursor),
      timeOf: changedAt,
      changes: changesByTime(api, async (since, next) => {
        const asked = {
          ...query,
          // A filter on deletedAt is what makes Twenty list what is in the bin.
          filter: `or(updatedAt[gte]:${since},deletedAt[gte]:${since})`,
          order_by: "updatedAt",
        };
        return toTimedPage(await listPage(api, object, asked, next), changeOf);
      }),
    };
  },
};

/** Records in the bin come with the others; destroyed ones leave no trace in Twenty. */
function changeOf({ id, record }: ListedRecord): PulledChange | undefined {
  const at = changedAt(record);
  if (at === undefined) return undefined;
  return timeOf(record["deletedAt"]) === undefined ? { id, record, at } : { id, at };
}

/** updatedAt of a destroyed record is that of its last change, not of the destruction. */
export const changedAt = (record: Json): string | undefined =>
  [record["updatedAt"], record["deletedAt"]]
    .flatMap((value) => timeOf(value) ?? [])
    .toSorted()
    .at(-1);

/** What selects the fields that are read, as parameters of a list. */
async function queryFor(
  api: RecordApi,
  object: string,
  fields: ReadonlySet<string>,
): Promise<{ readonly fields?: string } | NotListed> {
  const one = await ask(api, object, { limit: "1" });
  const sample = pageOf(one, object);
  if (sample.kind !== "page") return sample;
  const has = Object.keys(sample.records[0]?.record ?? {});
  const names = has.filter((name) => fields.has(name) || TIMES.has(name));
  // Of a large object the answer has only some fields: ask for each of the others.
  const isCapped = one.kind === "found" && one.headers?.["x-twenty-fields-capped"] !== undefined;
  const others = isCapped ? [...fields, ...TIMES].filter((name) => !has.includes(name)) : [];
  for (const name of others.filter((other) => /^[a-z]\w*$/i.test(other))) {
    const found = await ask(api, object, { limit: "1", fields: `id,${name}` });
    if (found.kind === "found") names.push(name);
    else if (found.kind !== "client_error" || found.isDenied) return found;
  }
  return selectionOf(api, object, names);
}

/** When a record was changed last. */
const TIMES: ReadonlySet<string> = new Set(["updatedAt", "deletedAt"]);

/** A relation is a column in the answer, `companyId`, and is asked for by its own name, `company`. */
const relationOf = (name: string): string => name.replace(/(?<=[a-z])Id$/, "");

/** What selects these fields, if this version of Twenty can. */
async function selectionOf(
  api: RecordApi,
  object: string,
  names: readonly string[],
): Promise<{ readonly fields?: string } | NotListed> {
  for (const list of names.length === 0 ? [] : [names, names.map(relationOf)]) {
    const fields = ["id", ...list].join(",");
    const one = await ask(api, object, { limit: "1", fields });
    if (one.kind === "found") return { fields };
    if (one.kind !== "client_error" || one.isDenied === true) return one;
  }
  return {};
}

/** The most that Twenty gives at once; older versions give less. */
const RECORDS_A_PAGE = 200;

export const pluralName = (object: string): string => PLURALS[object] ?? pluralOf(object);

const addressFor = (api: RecordApi, object: string, ...id: readonly string[]): string =>
  addressOf(api.setting("TWENTY_API_URL"), "/rest", pluralName(object), ...id);

export const headersOf = (api: RecordApi) => ({
  authorization: `Bearer ${api.setting("TWENTY_API_KEY")}`,
});

function ask(api: RecordApi, object: string, more: Readonly<Record<string, string>>) {
  // Without depth the records of other objects come along.
  const query = new URLSearchParams({ depth: "0", order_by: "id", ...more });
  return api.get(`${addressFor(api, object)}?${query.toString()}`, headersOf(api));
}

async function listPage(
  api: RecordApi,
  object: string,
  query: Readonly<Record<string, string>>,
  cursor: string | undefined,
) {
  const after = cursor !== undefined && { starting_after: cursor };
  const result = await ask(api, object, { limit: String(RECORDS_A_PAGE), ...query, ...after });
  return pageOf(result, object);
}

const pageOf = (result: ApiResult, object: string) =>
  toPage(result, "id", ({ data, pageInfo, totalCount: total }) => {
    if (!isObject(data) || !isObject(pageInfo)) return undefined;
    const { hasNextPage, endCursor } = pageInfo;
    if (typeof hasNextPage !== "boolean") return undefined;
    const list = data[pluralName(object)];
    return { list, total, next: hasNextPage ? (endCursor ?? "") : undefined };
  });

const PLURALS: Readonly<Record<string, string>> = { person: "people" };

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A list by a relation's id (`companyId`), or by ids. */
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
