/**
 * Asks Dataverse what has changed, by its change tracking: the cursor is the delta link of the pull before, with which
 * Dataverse tells deletions, too.
 */
import type { ObjectChanges, PulledChange } from "./change-puller.ts";
import {
  dataAddress,
  get,
  ownLink,
  PAGED,
  pageOf,
  withAnnotations,
  type Table,
} from "./dynamics-api.ts";
import { isObject, lastMomentOf, textOf, type Json } from "./json-value.ts";
import { NO_LIST, type ListedRecord, type NotListed } from "./record-lister.ts";
import { isReadable, type RecordApi } from "./record-reader.ts";

export function dynamicsChanges(
  api: RecordApi,
  object: string,
  { address, key, select: columnsOf }: Table,
  fields: ReadonlySet<string>,
): ObjectChanges {
  const select = columnsOf([...fields, "modifiedon", "merged"]);
  const toRow = (row: unknown) => withKey(row, key);
  return {
    /** Only the last page of the whole table has the link, and the link asks for the columns of these pages. */
    async begin(now) {
      const untracked = await whyUntracked(api, object);
      if (untracked !== undefined) return untracked;
      const prefer = `${PAGED},odata.track-changes`;
      for (let url = `${address}?$select=${select}`; ;) {
        const page = await pageOf(api, url, key, { prefer });
        if (page.kind !== "page") return page;
        const link = page.next ?? page.delta;
        if (link === undefined || link === url) return NO_LIST;
        if (page.next === undefined) {
          const cursor = JSON.stringify({ select, link } satisfies Place);
          return { kind: "begun", cursor, since: now + Math.min(0, api.skewMs() ?? 0) };
        }
        url = link;
      }
    },
    restart(cursor) {
      const { from, select: columns } = JSON.parse(cursor) as Place;
      if (from === undefined) return undefined;
      return JSON.stringify({ select: columns, link: from } satisfies Place);
    },
    async page(cursor) {
      const place = JSON.parse(cursor) as Place;
      // A link does not tell of columns that it does not ask for, nor of another environment.
      const isOurs = place.select === select && typeof ownLink(api, place.link) === "string";
      if (!isOurs) return { kind: "cursor_lost" };
      const url = place.link;
      const page = await pageOf(api, url, key, { toRow });
      // The place of a page is not known any more: the link with which the pull began may be.
      if (place.from === undefined && isExpired(page)) return { kind: "cursor_lost" };
      if (page.kind !== "page") return page;
      const { delta, next, records } = page;
      const hasMore = next !== undefined;
      const link = next ?? delta ?? url;
      const leadsOn = hasMore ? link !== url : delta !== undefined || records.length === 0;
      if (!leadsOn) return NO_LIST;
      const from = place.from ?? place.link;
      const now: Place = { select, link, ...(hasMore && { from }) };
      const changes = records.flatMap((one) => changeOf(one, fields));
      return { kind: "page", changes, cursor: JSON.stringify(now), hasMore };
    },
  };
}

/** The cursor. */
interface Place {
  /** The columns of the table that the link asks for. */
  readonly select: string;
  readonly link: string;
  /** Within a pull: the link with which it began. */
  readonly from?: string;
}

/** ExpiredVersionStamp: the link is older than Dataverse keeps changes for, by default 7 days. */
const isExpired = (answer: NotListed | { readonly kind: "page" }): boolean =>
  answer.kind === "not_found"
    ? answer.status === 410
    : answer.kind === "client_error" && answer.reason.endsWith(" 0x80044352");

/** A row that was removed has its id elsewhere: `id` or, by OData 4.01, in `@id`. */
function withKey(row: unknown, key: string): unknown {
  if (!isObject(row) || removalIn(row) === undefined) return row;
  const id = textOf(row["id"]) || textOf(row["@id"]);
  const isKnown = /^(?:deleted|changed)$/.test(removalIn(row) ?? "");
  return { ...row, [key]: isKnown && /([0-9a-f-]{36})\)?$/i.exec(id)?.[1] };
}

/** Why a row was removed; undefined: it was not. */
function removalIn(row: Json): string | undefined {
  const removed = row["@removed"];
  if (isObject(removed)) return textOf(removed["reason"]);
  const isRemoved = textOf(row["@odata.context"]).endsWith("/$deletedEntity");
  return isRemoved ? textOf(row["reason"]) : undefined;
}

/** None for a row that has only left the list. */
function changeOf(
  { id: given, record }: ListedRecord,
  fields: ReadonlySet<string>,
): PulledChange[] {
  const id = given.toLowerCase();
  const removal = removalIn(record);
  if (removal !== undefined) return removal === "deleted" ? [{ id, at: undefined }] : [];
  const at = lastMomentOf(record["modifiedon"]);
  if (record["merged"] === true) return [{ id, at }];
  return [{ id, at, record: withAnnotations(record, fields) }];
}

async function whyUntracked(api: RecordApi, object: string): Promise<NotListed | undefined> {
  if (!isReadable(object)) return NO_LIST;
  const table = `EntityDefinitions(LogicalName='${object}')?$select=ChangeTrackingEnabled`;
  const defined = await get(api, dataAddress(api, table));
  if (defined.kind !== "found" || defined.body["ChangeTrackingEnabled"] !== false) return undefined;
  return {
    kind: "client_error",
    reason: `change tracking is off for ${object}: in Power Apps, under Tables, ${object}, Properties, Advanced options, switch on Track changes`,
  };
}
