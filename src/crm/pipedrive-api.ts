/**
 * Reads and lists Pipedrive's records. Its API writes the values of custom fields in another form than its
 * webhooks: they get the webhooks' form, which mappings expect.
 */
import { isObject, textOf, type Json } from "./json-value.ts";
import {
  pluralOf,
  toPage,
  withRecords,
  type NotListed,
  type RecordLister,
} from "./record-lister.ts";
import {
  addressOf,
  notAboutRecord,
  toFetchedRecord,
  type RecordApi,
  type RecordReader,
} from "./record-reader.ts";

/** The API knows a custom field by a hash. */
export const CUSTOM_FIELD = /^[0-9a-f]{40}$/;

const NEEDS = ["PIPEDRIVE_API_URL", "PIPEDRIVE_API_TOKEN"];

export const pipedriveReader: RecordReader = {
  needs: NEEDS,
  hasOneClock: true,
  async fetchRecord(api, object, recordId, fields) {
    const types = await typesOf(api, object, fields);
    if (!(types instanceof Map)) {
      if (types.kind === "not_found") return notAboutRecord(types);
      return types.kind === "not_a_list" ? { ...types, kind: "unavailable" } : types;
    }
    const url = addressOf(api.setting("PIPEDRIVE_API_URL"), "/api/v2", pluralOf(object), recordId);
    const result = await api.get(url, headersOf(api));
    const fetched = toFetchedRecord(result, {
      recordId,
      at: ["data"],
      id: "id",
      modifiedAt: "update_time",
      isDeleted: (record) => record["is_deleted"] === true,
      isAboutRecord: ({ body }) =>
        isObject(body) && body["success"] === false && /\bnot found\b/i.test(textOf(body["error"])),
    });
    return fetched.kind === "found"
      ? { ...fetched, record: asSent(fetched.record, types) }
      : fetched;
  },
};

export const pipedriveLister: RecordLister = {
  needs: NEEDS,
  pauseMs: 250,
  async open(api, object, fields) {
    const types = await typesOf(api, object, fields);
    if (!(types instanceof Map)) return types;
    return {
      kind: "listing",
      async page(cursor) {
        const page = await list(api, pluralOf(object), "id", cursor, { sort_by: "id" });
        return withRecords(page, (record) => asSent(record, types));
      },
    };
  },
};

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
export function asSent(record: Json, types: ReadonlyMap<string, string>): Json {
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
