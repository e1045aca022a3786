/**
 * Asks HubSpot what has changed: its search for changes, its list of archived records for deletions. A search ends
 * at 10,000 records, and one that changes meanwhile moves those behind it: so each page is asked for by the time that
 * the page before has reached.
 */
import { changesByTime, toTimedPage, type ObjectChanges, type TimedPage } from "./change-puller.ts";
import {
  hubspotHeaders,
  listPage,
  objectsAddress,
  pageOf,
  withEmpty,
  type Asked,
} from "./hubspot-api.ts";
import { isObject, lastMomentOf, textOf, timeOf } from "./json-value.ts";
import { NO_LIST, type ListedRecord, type NotListed } from "./record-lister.ts";
import { isReadable } from "./record-reader.ts";

export const hubspotChanges = (asked: Asked): ObjectChanges =>
  changesByTime(asked.api, (since, next) => {
    const place: Place =
      next === undefined ? { from: Date.parse(since) } : (JSON.parse(next) as Place);
    return "from" in place ? search(asked, place) : archived(asked, place, since);
  });

/** Where the next page begins: of the changes, then of the archived records. */
type Place = TimePlace | { readonly after: string };

interface TimePlace {
  /** The time of the first change, ms. */
  readonly from: number;
  /** Only the records of exactly this time, whose ids are greater. */
  readonly beyond?: string;
}

/** The ids of the records that were merged into this one: HubSpot does not list them as archived. */
const MERGED = "hs_merged_object_ids";

async function search(
  { api, object, names, known }: Asked,
  { from, beyond }: TimePlace,
): Promise<TimedPage | NotListed> {
  const modified = object === "contact" ? "lastmodifieddate" : "hs_lastmodifieddate";
  const time = { propertyName: modified, operator: "GTE", value: String(from) };
  const filters =
    beyond === undefined
      ? [time]
      : [
          { ...time, operator: "EQ" },
          { propertyName: "hs_object_id", operator: "GT", value: beyond },
        ];
  const result = await api.post(objectsAddress(api, object, "search"), hubspotHeaders(api), {
    filterGroups: [{ filters }],
    // One rule is all that HubSpot accepts.
    sorts: [
      { propertyName: beyond === undefined ? modified : "hs_object_id", direction: "ASCENDING" },
    ],
    properties: [...new Set([...names, modified, MERGED])],
    limit: 200,
  });
  const page = toTimedPage(pageOf(result), ({ id, record }) => {
    const properties = isObject(record["properties"]) ? record["properties"] : {};
    const askedBy = timeOf(properties[modified]);
    if (askedBy === undefined || Date.parse(askedBy) < from) return undefined;
    const at = lastMomentOf(record["updatedAt"]) ?? askedBy;
    const merged = textOf(properties[MERGED]).split(/[;,\s]+/);
    const gone = merged.filter((other) => isReadable(other) && other !== id);
    const change = { id, at, askedBy, record: withEmpty(record, names, known) };
    return [...gone.map((other) => ({ id: other, at, askedBy })), change];
  });
  if (page.kind !== "page") return page;
  const end: Place = beyond === undefined ? { after: "" } : { from: from + 1 };
  const next = page.next === undefined ? end : nextOf({ from, beyond }, page.changes.at(-1));
  return next === undefined ? NO_LIST : { ...page, next: JSON.stringify(next) };
}

/** Undefined: the last record of a page that is not the last one leads no further. */
function nextOf(
  { from, beyond }: { readonly from: number; readonly beyond: string | undefined },
  last: TimedPage["changes"][number] | undefined,
): TimePlace | undefined {
  if (last === undefined) return undefined;
  if (beyond !== undefined) {
    return Number(last.id) > Number(beyond) ? { from, beyond: last.id } : undefined;
  }
  const reached = Date.parse(last.askedBy ?? "");
  return reached > from ? { from: reached } : { from, beyond: "0" };
}

/** All that are archived, for as long as HubSpot keeps them: the list cannot be asked by time. */
async function archived(
  { api, object }: Asked,
  { after }: { readonly after: string },
  since: string,
): Promise<TimedPage | NotListed> {
  const query = { archived: "true", properties: "hs_object_id" };
  const page = await listPage(api, object, query, after);
  if (page.kind === "page" && page.next === after) return NO_LIST;
  const changesOf = ({ id, record }: ListedRecord) => {
    // Only a record that says so itself is deleted: the list may ignore that archived ones were asked for.
    const at = record["archived"] === true ? timeOf(record["archivedAt"]) : undefined;
    if (at === undefined) return undefined;
    // A change during this phase, which the search has not seen, may be older.
    return at >= since ? { id, at, askedBy: "" } : [];
  };
  return toTimedPage(page, changesOf, (next) => next && JSON.stringify({ after: next }));
}
