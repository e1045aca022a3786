/**
 * Reads and lists Pipedrive's records, and asks what has changed. Its API writes the values of custom fields in another
 * form than its webhooks: they get the webhooks' form, which mappings expect.
 */
import { isObject } from "../../core/event/problem.ts";
import { changesByTime, toTimedPage, type TimedPage } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { lastMomentOf, textOf, timeOf, type Json } from "./json-value.ts";
import {
  pluralOf,
  toPage,
  withRecords,
  type ListedRecord,
  type NotListed,
  type RelationReader,
} from "./record-lister.ts";
import { addressOf, notAboutRecord, toFetchedRecord, type RecordApi } from "./record-reader.ts";

/** The API knows a custom field by a hash. */
export const CUSTOM_FIELD = /^[0-9a-f]{40}$/;

export const pipedriveRecords: Omit<CrmSource, "name"> = {
  needs: ["PIPEDRIVE_API_URL", "PIPEDRIVE_API_TOKEN"],
  pauseMs: 250,

  reader: {
    hasOneClock: true,
    async fetchRecord(api, object, recordId, fields) {
      const types = await typesOf(api, object, fields);
      if (!(types instanceof Map)) {
        if (types.kind === "not_found") return notAboutRecord(types);
        return types.kind === "not_a_list" ? { ...types, kind: "unavailable" } : types;
      }
      const base = api.setting("PIPEDRIVE_API_URL");
      const url = addressOf(base, "/api/v2", pluralOf(object), recordId);
      const fetched = toFetchedRecord(await api.get(url, headersOf(api)), {
        recordId,
        at: ["data"],
        id: "id",
        modifiedAt: changedAt,
        isDeleted: (record) => record["is_deleted"] === true,
        isAboutRecord: ({ body }) =>
          isObject(body) &&
          body["success"] === false &&
          /\bnot found\b/i.test(textOf(body["error"])),
      });
      return fetched.kind === "found"
        ? { ...fetched, record: asSent(fetched.record, types) }
        : fetched;
    },
  },

  async open(api, object, fields) {
    const types = await typesOf(api, object, fields);
    if (!(types instanceof Map)) return types;
    return {
      kind: "records",
      async list(cursor) {
        const page = await list(api, pluralOf(object), "id", cursor, { sort_by: "id" });
        return withRecords(page, (record) => asSent(record, types));
      },
      timeOf: changedAt,
      changes: changesByTime(api, (since, next) =>
        next?.startsWith(DELETED) === true
          ? deletedSince(api, object, next.slice(DELETED.length))
          : changedSince(api, object, types, toSeconds(since), next),
      ),
    };
  },
};

const changedAt = (record: Json): string | undefined => lastMomentOf(record["update_time"]);

/** Most pages of field descriptions, 500 each. */
const MOST_FIELD_PAGES = 20;

/** How long the fields of an object count as known, ms. */
const FIELDS_KEPT_MS = 300_000;

/** The type of each custom field of an object, if any of them is read. */
export async function typesOf(
  api: RecordApi,
  object: string,
  fields: ReadonlySet<string>,
): Promise<Map<string, string> | NotListed> {
  const types = new Map<string, string>();
  if (![...fields].some((name) => CUSTOM_FIELD.test(name))) return types;
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_FIELD_PAGES; pages += 1) {
    const page = await list(api, `${object}Fields`, "field_code", cursor, {}, FIELDS_KEPT_MS);
    if (page.kind !== "page") return page;
    for (const { id, record } of page.records) types.set(id, textOf(record["field_type"]));
    if (page.next === undefined) return types;
    cursor = page.next;
  }
  return { kind: "not_a_list", reason: `the list of fields of ${object} does not end` };
}

export async function list(
  api: RecordApi,
  name: string,
  idField: string,
  cursor: string | undefined,
  more: Readonly<Record<string, string>> = {},
  keepMs = 0,
) {
  const query = new URLSearchParams({
    limit: "500",
    ...more,
    ...(cursor !== undefined && { cursor }),
  });
  const url = addressOf(api.setting("PIPEDRIVE_API_URL"), "/api/v2", name);
  const result = await api.get(`${url}?${query.toString()}`, headersOf(api), keepMs);
  return toPage(result, idField, ({ success, data, additional_data: additional }) =>
    success === true && isObject(additional)
      ? { list: data, next: additional["next_cursor"] }
      : undefined,
  );
}

export const headersOf = (api: RecordApi) => ({
  "x-api-token": api.setting("PIPEDRIVE_API_TOKEN"),
});

/** A record as a webhook has it. */
function asSent(record: Json, types: ReadonlyMap<string, string>): Json {
  const { address, custom_fields: custom } = record;
  return {
    ...record,
    ...(isObject(address) && { address: address["value"] ?? null }),
    ...(isObject(custom) && {
      custom_fields: Object.fromEntries(
        Object.entries(custom).map(([name, value]) => [name, customValue(value, types.get(name))]),
      ),
    }),
  };
}

/** `42` of a field with options is `{ type: "enum", id: 42 }`, a text `{ type: "varchar", value }`. */
function customValue(value: unknown, type = "varchar"): unknown {
  if (value === null || value === undefined) return null;
  if (isObject(value)) return { type, ...value };
  if (Array.isArray(value)) return { type, values: value.map((id: unknown) => ({ id })) };
  return REFERENCES.has(type) ? { type, id: value } : { type, value };
}

/** Types whose values are ids: of an option, a user, a person, an organization. */
const REFERENCES: ReadonlySet<string> = new Set(["enum", "user", "people", "org", "status"]);

/** Begins the place of a page of deletions: where in the recents, by time and number. */
const DELETED = "deleted:";

/** The lists leave out what was deleted: that comes from the recents of API v1, which go back one month. */
async function changedSince(
  api: RecordApi,
  object: string,
  types: ReadonlyMap<string, string>,
  since: string,
  next: string | undefined,
): Promise<TimedPage | NotListed> {
  const query = { sort_by: "update_time", updated_since: since };
  const page = await list(api, pluralOf(object), "id", next, query);
  const changeOf = ({ id, record }: ListedRecord) => {
    const askedBy = timeOf(record["update_time"]);
    if (askedBy === undefined) return undefined;
    // When it was deleted is not in the record.
    if (record["is_deleted"] === true) return { id, at: undefined, askedBy };
    return { id, at: changedAt(record), askedBy, record: asSent(record, types) };
  };
  return toTimedPage(page, changeOf, (after = `${DELETED}${since}|0`) => after);
}

/** @param place the time in UTC, and how many items of that time and later have been given already. */
async function deletedSince(
  api: RecordApi,
  object: string,
  place: string,
): Promise<TimedPage | NotListed> {
  const [since = "", start = ""] = place.split("|");
  const query = new URLSearchParams({
    since_timestamp: since.replace("T", " ").replace("Z", ""),
    items: object,
    start,
    limit: "500",
  });
  const url = addressOf(api.setting("PIPEDRIVE_API_URL"), "/v1/recents");
  const result = await api.get(`${url}?${query.toString()}`, headersOf(api));
  const page = toPage(result, "id", ({ success, data, additional_data: more }) =>
    success === true && isObject(more)
      ? { list: data ?? [], next: placeAfter(more, since, Number(start)) }
      : undefined,
  );
  return toTimedPage(page, ({ id, record: { data, item } }) => {
    if (item !== object) return [];
    if (!isObject(data)) return undefined;
    if (data["active_flag"] !== false) return [];
    return { id, at: timeOf(data["delete_time"]), askedBy: timeOf(data["update_time"]) };
  });
}

/**
 * The next page begins a second before the last time of this one: by number it would miss what moves up when an item
 * changes meanwhile. Undefined: there is none; "": the answer does not say where.
 */
function placeAfter(more: Json, since: string, start: number): string | undefined {
  const { last_timestamp_on_page: lastOnPage, pagination } = more;
  if (!isObject(pagination)) return "";
  const { more_items_in_collection: hasMore, next_start: nextStart } = pagination;
  if (hasMore !== true) return hasMore === false ? undefined : "";
  const last = Date.parse(timeOf(lastOnPage) ?? "");
  if (last - 1000 > Date.parse(since)) return `${DELETED}${toSeconds(last - 1000)}|0`;
  return Number(textOf(nextStart)) > start ? `${DELETED}${since}|${textOf(nextStart)}` : "";
}

/** Pipedrive's times have whole seconds. */
const toSeconds = (time: string | number): string =>
  `${new Date(time).toISOString().slice(0, 19)}Z`;

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
