/**
 * Asks HubSpot what has changed: its search for changes, its list of archived records for deletions. A search ends
 * at 10,000 records, and one that changes meanwhile moves those behind it: so each page is asked for by the time that
 * the page before has reached.
 */
import { changesByTime, type ChangePuller, type TimedPage } from "./change-puller.ts";
import {
  hubspotHeaders,
  NO_PROPERTIES,
  objectsAddress,
  pageOf,
  propertiesOf,
  schemaOf,
  withEmpty,
} from "./hubspot-api.ts";
import { isObject, textOf, timeOf, type Json } from "./json-value.ts";
import { NO_LIST, type NotListed } from "./record-lister.ts";
import { isReadable, type RecordApi } from "./record-reader.ts";

export const hubspotPuller: ChangePuller = {
  async open(api, object, fields) {
    const names = propertiesOf(fields);
    if (names.length === 0) return NO_PROPERTIES;
    const known = await schemaOf(api, object);
    if (!(known instanceof Set)) return known;
    const modified = object === "contact" ? "lastmodifieddate" : "hs_lastmodifieddate";
    const asked: Asked = { api, object, names, known, modified };
    return changesByTime((since, next) => {
      const place: Place =
        next === undefined ? { from: Date.parse(since) } : (JSON.parse(next) as Place);
      return "from" in place ? search(asked, place) : archived(asked, place, since);
    });
  },
};

interface Asked {
  readonly api: RecordApi;
  readonly object: string;
  /** Of the properties that the mapping reads. */
  readonly names: readonly string[];
  readonly known: ReadonlySet<string>;
  /** The property with the time of the last change. */
  readonly modified: string;
}

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
  { api, object, names, known, modified }: Asked,
  { from, beyond }: TimePlace,
): Promise<TimedPage | NotListed> {
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
  const page = pageOf(result);
  if (page.kind !== "page") return page;
  const changes: TimedPage["changes"][number][] = [];
  for (const { id, record } of page.records) {
    const properties = isObject(record["properties"]) ? record["properties"] : {};
    const askedBy = timeOf(properties[modified]);
    if (askedBy === undefined || Date.parse(askedBy) < from) return NO_LIST;
    const at = timeOf(record["updatedAt"]) ?? askedBy;
    for (const gone of textOf(properties[MERGED]).split(/[;,\s]+/)) {
      if (isReadable(gone) && gone !== id) changes.push({ id: gone, at, askedBy });
    }
    changes.push({ id, at, askedBy, record: withEmpty(record, names, known) });
  }
  const next = page.next === undefined ? "end" : nextOf({ from, beyond }, changes.at(-1));
  if (next === undefined) return NO_LIST;
  if (next !== "end") return { kind: "page", changes, next: JSON.stringify(next) };
  const place: Place = beyond === undefined ? { after: "" } : { from: from + 1 };
  return { kind: "page", changes, next: JSON.stringify(place) };
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
  const query = new URLSearchParams({
    limit: "100",
    archived: "true",
    properties: "hs_object_id",
    ...(after !== "" && { after }),
  });
  const address = objectsAddress(api, object);
  const page = pageOf(await api.get(`${address}?${query.toString()}`, hubspotHeaders(api)));
  if (page.kind !== "page") return page;
  const times = page.records.map(({ record }) => archivedAt(record));
  if (times.includes(undefined) || page.next === after) return NO_LIST;
  const changes = page.records
    .map(({ id }, n) => ({ id, at: times[n] }))
    .filter(({ at }) => at !== undefined && at >= since)
    // A change during this phase, which the search has not seen, may be older.
    .map((change) => ({ ...change, askedBy: "" }));
  const next = page.next === undefined ? undefined : JSON.stringify({ after: page.next });
  return { kind: "page", changes, next };
}

/** Only a record that says so itself is deleted: the list may ignore that archived ones were asked for. */
const archivedAt = ({ archived: isArchived, archivedAt: at }: Json): string | undefined =>
  isArchived === true ? timeOf(at) : undefined;
