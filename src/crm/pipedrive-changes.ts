/**
 * Asks Pipedrive what has changed: the lists of API v2 by `update_time`. They leave out what was deleted, so that comes
 * from the recents of API v1, which go back one month.
 */
import {
  changesByTime,
  type ChangePuller,
  type PulledChange,
  type TimedPage,
} from "./change-puller.ts";
import { isObject, textOf, timeOf, type Json } from "./json-value.ts";
import { asSent, headersOf, list, typesOf } from "./pipedrive-api.ts";
import { NO_LIST, pluralOf, toPage, type NotListed } from "./record-lister.ts";
import { addressOf } from "./record-reader.ts";
import type { RecordApi } from "./record-reader.ts";

/** Begins the place of a page of deletions: where in the recents, by time and number. */
const DELETED = "deleted:";

export const pipedrivePuller: ChangePuller = {
  async open(api, object, fields) {
    const types = await typesOf(api, object, fields);
    if (!(types instanceof Map)) return types;
    return changesByTime((since, next) =>
      next?.startsWith(DELETED) === true
        ? deletedSince(api, object, next.slice(DELETED.length))
        : changedSince(api, object, types, toSeconds(since), next),
    );
  },
};

async function changedSince(
  api: RecordApi,
  object: string,
  types: ReadonlyMap<string, string>,
  since: string,
  next: string | undefined,
): Promise<TimedPage | NotListed> {
  const page = await list(api, pluralOf(object), "id", next, {
    sort_by: "update_time",
    updated_since: since,
  });
  if (page.kind !== "page") return page;
  const changes: (PulledChange & { readonly askedBy: string })[] = [];
  for (const { id, record } of page.records) {
    const changed = timeOf(record["update_time"]);
    if (changed === undefined) return NO_LIST;
    // When it was deleted is not in the record.
    const isDeleted = record["is_deleted"] === true;
    const what = isDeleted ? { at: undefined } : { at: changed, record: asSent(record, types) };
    changes.push({ id, askedBy: changed, ...what });
  }
  return { kind: "page", changes, next: page.next ?? `${DELETED}${since}|0` };
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
  if (page.kind !== "page") return page;
  const changes: (PulledChange & { readonly askedBy: string | undefined })[] = [];
  for (const { id, record: recent } of page.records) {
    const { data, item } = recent;
    if (item !== object) continue;
    if (!isObject(data)) return NO_LIST;
    if (data["active_flag"] !== false) continue;
    const askedBy = timeOf(data["update_time"]);
    changes.push({ id, at: timeOf(data["delete_time"]), askedBy });
  }
  return { kind: "page", changes, next: page.next };
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
