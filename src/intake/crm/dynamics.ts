/**
 * Dataverse / Dynamics 365 sends the execution context of a plug-in step, with the attributes that
 * were set. It waits 60 s for the response, and tries once more after 502, 503 and 504.
 */
import { isObject } from "../../core/event/problem.ts";
import { isOneOf } from "../../base/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { lastMomentOf, textOf, timeOf, type Json } from "./json-value.ts";
import {
  FORMATTED,
  get,
  pageOf,
  setAddress,
  tableOf,
  withAnnotations,
  dataAddress,
  ownLink,
  PAGED,
  type Table,
} from "./dynamics-api.ts";
import { withRecords, NO_LIST, type ListedRecord, type NotListed } from "./record-lister.ts";
import { toFetchedRecord, isReadable, type RecordApi } from "./record-reader.ts";
import { jsonOf, required, WebhookBodyError } from "./webhook-body.ts";
import type { ObjectChanges, PulledChange } from "./change-puller.ts";

const DATE = /^\/Date\((-?\d+)(?:[+-]\d{4})?\)\/$/;

/** Error codes of Dataverse: no record with this id, no record with this key. */
const NO_RECORD: ReadonlySet<string> = new Set(["0x80040217", "0x80060891"]);

/** The id in a message about several records, such as UpdateMultiple. No field that is read names them. */
const NO_ID = "00000000-0000-0000-0000-000000000000";

/** An image that Dataverse adds by itself; it holds only a name. */
const OWN_IMAGE = "AsynchronousStepPrimaryName";

export const dynamics: CrmConnector = {
  name: "dynamics",
  secretName: "DYNAMICS_WEBHOOK_SECRET",
  rememberForS: 0,
  tooFast: 503,

  /** A service endpoint can be registered with a header, a key or a query parameter. */
  verify({ headers, query }, secrets) {
    const given = [
      headers["x-webhook-key"],
      headers["authorization"]?.replace(/^Bearer +/i, ""),
      query.get("code") ?? undefined,
      query.get("key") ?? undefined,
    ];
    return given.map((text) => isOneOf(text, secrets)).includes(true)
      ? { ok: true }
      : { ok: false, why: "the key (?code=, or the header x-webhook-key) is missing or wrong" };
  },

  toEvents(request, canFetch): Translated {
    const context = jsonOf(request);
    if (!isObject(context)) throw new WebhookBodyError("the body is not an object");
    const message = required(context["MessageName"], "MessageName");
    const object = required(context["PrimaryEntityName"], "PrimaryEntityName");
    const primary = required(context["PrimaryEntityId"], "PrimaryEntityId").toLowerCase();
    const target = input(context, "Target");
    const own = isObject(target) ? textOf(target["Id"]).toLowerCase() : "";
    // Before a restoration there was no record.
    const id = message === "Restore" && primary === NO_ID ? own || NO_ID : primary;
    if (id === NO_ID) return { events: [], gaps: 1 };
    const event = (type: WebhookEvent["type"], recordId: string, data?: WebhookEvent["data"]) => ({
      ...envelopeOf(context, `${message}-${recordId}`),
      type,
      subject: `${object}/${recordId}`,
      ...(data !== undefined && { data }),
    });
    const whole = () => dataOf(context, canFetch, message === "Create");
    switch (message) {
      case "Create":
        return { events: [event("crm.record.created", id, whole())] };
      case "Delete":
        return { events: [event("crm.record.deleted", id)] };
      case "Restore": {
        const data = whole();
        // A relation whose record is not known gets its status back.
        const isThin = !canFetch && data?.fetch !== undefined;
        return { events: [event("crm.record.restored", id, isThin ? undefined : data)] };
      }
      case "Merge": {
        const survivor = event("crm.record.updated", id, { fetch: "dynamics" });
        const merged = textOf(input(context, "SubordinateId")).toLowerCase();
        // Of a context above 256 KB Dataverse sends no parameters: which record has ended is lost.
        if (merged === "") return { events: [survivor], gaps: 1 };
        return { events: [event("crm.record.deleted", merged), survivor] };
      }
      default:
        return { events: [event("crm.record.updated", id, whole())] };
    }
  },

  needs: ["DYNAMICS_URL", "DYNAMICS_TENANT_ID", "DYNAMICS_CLIENT_ID", "DYNAMICS_CLIENT_SECRET"],
  pauseMs: 100,

  reader: {
    async fetchRecord(api, object, given, fields) {
      const recordId = given.toLowerCase();
      // The id stands unquoted in the address, so accept nothing but a GUID.
      if (!/^[0-9a-f-]{36}$/.test(recordId)) {
        return { kind: "client_error", reason: "the id in the subject is no GUID" };
      }
      const result = await get(api, `${setAddress(api, object)}(${recordId})`);
      const fetched = toFetchedRecord(result, {
        recordId,
        // The key of activities, such as e-mails, does not have the name of their table.
        id: result.kind === "found" && "activityid" in result.body ? "activityid" : `${object}id`,
        isSame: (answered) => answered.toLowerCase() === recordId,
        modifiedAt: changedAt,
        // A table name that Dataverse does not know is a 404 too; it does not mean "deleted".
        isAboutRecord: ({ code = "" }) => NO_RECORD.has(code),
      });
      if (fetched.kind !== "found") return fetched;
      return { ...fetched, record: withAnnotations(fetched.record, fields) };
    },
  },

  async open(api, object, fields) {
    const table = await tableOf(api, object);
    if (table.kind !== "table") return table;
    const { address, key } = table;
    // The count ends at 5000, so it is the least number of records.
    const query = `$select=${table.select([...fields, "modifiedon"])}&$orderby=${key}&$count=true`;
    return {
      kind: "records",
      async list(cursor) {
        const page = await pageOf(api, cursor ?? `${address}?${query}`, key);
        return withRecords(page, (record) => withAnnotations(record, fields));
      },
      timeOf: changedAt,
      changes: dynamicsChanges(api, object, table, fields),
    };
  },
};

const changedAt = (record: Json): string | undefined => lastMomentOf(record["modifiedon"]);

function envelopeOf(context: Json, what: string) {
  const time = dateOf(context["OperationCreatedOn"]);
  return {
    specversion: "1.0",
    id: `${textOf(context["CorrelationId"])}-${textOf(context["OperationId"])}-${what}-${time ?? ""}`,
    source: `/dynamics/${textOf(context["OrganizationName"])}`,
    ...(time !== undefined && { time }),
  } as const;
}

/**
 * Of a new record, the attributes that were set are all of it. A post image leaves out the columns that are
 * empty, and those that it was not registered for; what a change has emptied is null in its target.
 */
function dataOf(context: Json, canFetch: boolean, isCreation: boolean): WebhookEvent["data"] {
  if (canFetch) return { fetch: "dynamics" };
  const target = flatten(input(context, "Target"));
  const image = pairs(context["PostEntityImages"]).find(([key]) => key !== OWN_IMAGE);
  if (image !== undefined) {
    return { record: { ...flatten(image[1]), ...target }, partial: true };
  }
  return isCreation && Object.keys(target).length > 0 ? { record: target } : { fetch: "dynamics" };
}

const input = (context: Json, name: string): unknown =>
  pairs(context["InputParameters"]).find(([key]) => key === name)?.[1];

function pairs(list: unknown): [string, unknown][] {
  if (!Array.isArray(list)) return [];
  return (list as unknown[]).flatMap((pair) =>
    isObject(pair) && typeof pair["key"] === "string" ? [[pair["key"], pair["value"]]] : [],
  );
}

/** Turns an Entity into the shape that the Web API returns. */
function flatten(entity: unknown): Record<string, unknown> {
  if (!isObject(entity)) return {};
  const record: Record<string, unknown> = {};
  for (const [key, value] of pairs(entity["Attributes"])) {
    if (isObject(value) && "LogicalName" in value) record[`_${key}_value`] = value["Id"];
    else record[key] = isObject(value) && "Value" in value ? value["Value"] : value;
  }
  for (const [key, value] of pairs(entity["FormattedValues"])) record[key + FORMATTED] = value;
  return record;
}

function dateOf(value: unknown): string | undefined {
  const ms = DATE.exec(textOf(value))?.[1];
  return ms === undefined ? timeOf(value) : timeOf(Number(ms));
}

function dynamicsChanges(
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
