/**
 * Salesforce. A relay (EventBridge, a Pub/Sub client, a flow) subscribes to its change data capture
 * events and sends them here as JSON. Salesforce itself sends outbound messages, as SOAP.
 */
import { isObject } from "../../core/event/problem.ts";
import { isOneOf } from "../../base/secrets.ts";
import {
  basicOf,
  eventsOfEach,
  jsonOf,
  listOf,
  required,
  textOfBody,
  WebhookBodyError,
} from "./webhook-body.ts";
import { isRecordId, wholeId } from "./salesforce-id.ts";
import { ACKNOWLEDGEMENT, isSoap, messageOf, notificationOf } from "./salesforce-soap.ts";
import { changesByTime, toTimedPage, type PulledChange } from "./change-puller.ts";
import type { CrmConnector, Translated, WebhookEvent, WebhookRequest } from "./connector.ts";
import { lastMomentOf, textOf, timeOf, type Json } from "./json-value.ts";
import {
  NO_LIST,
  objectsIn,
  sameOrigin,
  toPage,
  type ListedRecord,
  type NotListed,
  type RelationReader,
} from "./record-lister.ts";
import {
  addressOf,
  isReadable,
  toFetchedRecord,
  type ApiResult,
  type FetchedRecord,
  type RecordApi,
} from "./record-reader.ts";

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  CREATE: "crm.record.created",
  UPDATE: "crm.record.updated",
  DELETE: "crm.record.deleted",
  UNDELETE: "crm.record.restored",
};

/** Copies of one record for all records that a change is about, bytes. */
const MAX_COPIED = 64 * 1024 * 1024;

/** The record was deleted. */
const DELETED = "ENTITY_IS_DELETED";

/** No such record, or none that the app may see; or no such object, or no such version of the API. */
const NOT_FOUND = "NOT_FOUND";

/** Version of the REST API; Salesforce supports each for years. */
const API_VERSION = "v62.0";

/** Numbers are padded to these lengths, so that they compare as text. */
const COMMIT_DIGITS = 20;
const SEQUENCE_DIGITS = 6;

export const salesforce: CrmConnector = {
  name: "salesforce",
  secretName: "SALESFORCE_WEBHOOK_SECRET",
  rememberForS: 0,

  /** A relay can set a header; an outbound message can carry a secret only in its address. */
  verify({ headers, query }, secrets) {
    const given = [
      headers["authorization"]?.replace(/^Bearer +/i, ""),
      basicOf(headers),
      headers["x-api-key"],
      query.get("key") ?? undefined,
    ];
    return given.map((text) => isOneOf(text, secrets)).includes(true)
      ? { ok: true }
      : {
          ok: false,
          why: "the secret is missing or wrong (Authorization, X-API-Key, or ?key= for outbound messages)",
        };
  },

  toEvents(request, canFetch): Translated {
    if (isSoap(request)) return eventsOfSoap(request, canFetch);
    const body = jsonOf(request);
    let gaps = 0;
    const translated = eventsOfEach(
      Array.isArray(body) ? listOf(body, "the body") : [body],
      (one) => {
        const change = eventsOfChange(payloadOf(one), canFetch);
        gaps += change.gaps ?? 0;
        return change.events;
      },
    );
    return { ...translated, gaps };
  },

  acknowledgement: ACKNOWLEDGEMENT,

  needs: ["SALESFORCE_URL", "SALESFORCE_CLIENT_ID", "SALESFORCE_CLIENT_SECRET"],
  pauseMs: 100,

  reader: {
    async fetchRecord(api, object, recordId) {
      const result = await get(api, addressFor(api, "sobjects", object, recordId));
      if (result.kind === "not_found" && result.code === NOT_FOUND) {
        return confirmMissing(api, object);
      }
      return toFetchedRecord(result, {
        recordId,
        id: "Id",
        isSame: (answered, asked) => wholeId(answered) === wholeId(asked),
        modifiedAt: changedAt,
        isAboutRecord: ({ code }) => code === DELETED,
      });
    },
  },

  async open(api, object, fields) {
    const names = await fieldsOf(api, object);
    if (!Array.isArray(names)) return names;
    const select = (...own: readonly string[]) => {
      const wanted = names.filter((name) => own.includes(name) || fields.has(name));
      return `SELECT ${[...new Set(["Id", ...wanted])].join(",")} FROM ${object}`;
    };
    return {
      kind: "records",
      /** A query keeps its place for two days; deleted records are not in it. */
      list: (cursor) => pageOf(api, cursor ?? queryAddress(api, "query", select(MODIFIED))),
      timeOf: changedAt,
      /** Deleted records are asked for, too, for as long as the recycle bin has them. */
      changes: changesByTime(
        api,
        async (since, next) => {
          if (!names.includes(MODIFIED)) {
            return { kind: "client_error", reason: `${object} has no ${MODIFIED} to ask by` };
          }
          const own = select("IsDeleted", MODIFIED);
          const query = `${own} WHERE ${MODIFIED} >= ${since} ORDER BY ${MODIFIED}`;
          const page = await pageOf(api, next ?? queryAddress(api, "queryAll", query));
          return toTimedPage(page, (one) => changeOf(one, names));
        },
        LONGEST_TRANSACTION_MS,
      ),
    };
  },
};

const MODIFIED = "SystemModstamp";

/** A transaction dates its changes when it makes them, and commits up to ten minutes later, ms. */
const LONGEST_TRANSACTION_MS = 15 * 60_000;

/** Salesforce cuts the time to seconds, and writes zeros after them. */
const changedAt = (record: Json): string | undefined =>
  lastMomentOf(textOf(record[MODIFIED]).replace(/\.000(?=[+Z])/, ""));

/** Undefined: the record does not say when it changed, or whether it is deleted. */
function changeOf(
  { id, record }: ListedRecord,
  asked: readonly string[],
): PulledChange | undefined {
  const askedBy = timeOf(record[MODIFIED]);
  const isDeleted = asked.includes("IsDeleted") ? record["IsDeleted"] : false;
  if (askedBy === undefined || typeof isDeleted !== "boolean") return undefined;
  const change = { id: wholeId(id), at: changedAt(record), askedBy };
  return isDeleted ? change : { ...change, record };
}

/** The names of an object's fields: a query fails for a field that the organisation does not have. */
async function fieldsOf(api: RecordApi, object: string, keepMs = 0): Promise<string[] | NotListed> {
  const described = await get(api, addressFor(api, "sobjects", object, "describe"), keepMs);
  const fields = objectsIn(described, "fields");
  if (!Array.isArray(fields)) return fields;
  if (!isReadable(object)) return NO_LIST;
  return fields.map(({ name }) => textOf(name)).filter((name) => /^\w+$/.test(name));
}

export const addressFor = (api: RecordApi, path: string, ...names: readonly string[]): string =>
  addressOf(api.setting("SALESFORCE_URL"), `/services/data/${API_VERSION}/${path}`, ...names);

export const queryAddress = (
  api: RecordApi,
  kind: "query" | "queryAll" | "tooling/query",
  query: string,
): string => `${addressFor(api, kind)}?q=${encodeURIComponent(query)}`;

export async function get(api: RecordApi, url: string, keepMs = 0): Promise<ApiResult> {
  const login = addressOf(api.setting("SALESFORCE_URL"), "/services/oauth2/token");
  const token = await api.token(login, {
    client_id: api.setting("SALESFORCE_CLIENT_ID"),
    client_secret: api.setting("SALESFORCE_CLIENT_SECRET"),
  });
  return typeof token === "string"
    ? api.get(url, { authorization: `Bearer ${token}` }, keepMs)
    : token;
}

/**
 * Salesforce gives the same answer for a record and for an object that it does not have: only where it
 * has the object, the record is missing.
 */
async function confirmMissing(api: RecordApi, object: string): Promise<FetchedRecord> {
  const result = await get(api, addressFor(api, "sobjects", object));
  switch (result.kind) {
    case "found":
      return isObject(result.body["objectDescribe"])
        ? { kind: "missing" }
        : { kind: "unavailable", reason: `an answer that does not describe ${object}` };
    case "not_found":
      return {
        kind: "client_error",
        reason: `HTTP 404 ${result.code ?? ""} also for ${object} itself: the app may not read ${object}, or the organisation has no ${object} or no API ${API_VERSION}`,
      };
    case "throttled":
    case "client_error":
    case "unavailable":
      return result;
  }
}

async function pageOf(api: RecordApi, url: string) {
  const page = toPage(await get(api, url), "Id", (body) => {
    const { done, nextRecordsUrl, records: list, totalSize: total } = body;
    if (typeof done !== "boolean") return undefined;
    return { list, total, next: done ? undefined : (nextRecordsUrl ?? "") };
  });
  if (page.kind !== "page" || page.next === undefined) return page;
  const next = sameOrigin(page.next, api.setting("SALESFORCE_URL"), "/services/data/");
  return typeof next === "string" ? { ...page, next } : next;
}

/** A change event as the bus sends it (`data`), as EventBridge wraps it (`detail`), or bare. */
function payloadOf(body: unknown): Json {
  for (const one of isObject(body) ? [body, body["data"], body["detail"]] : []) {
    if (!isObject(one)) continue;
    const payload = isObject(one["payload"]) ? one["payload"] : one;
    if (isObject(payload["ChangeEventHeader"])) return payload;
  }
  throw new WebhookBodyError("ChangeEventHeader is missing");
}

function eventsOfChange(payload: Json, canFetch: boolean): Translated {
  const header = payload["ChangeEventHeader"] as Json;
  const object = required(header["entityName"], "entityName");
  const change = required(header["changeType"], "changeType");
  if (change === "GAP_OVERFLOW") return { events: [], gaps: 1 };
  const type = TYPES[change.replace(/^GAP_/, "")];
  if (type === undefined) throw new WebhookBodyError("changeType is not known");
  const recordIds = listOf(header["recordIds"] ?? [], "recordIds").map(textOf);
  const known = recordIds.filter(isRecordId).map(wholeId);
  const data = dataOf(payload, change, known.length, canFetch);
  const transaction = `${required(header["transactionKey"], "transactionKey")}-${textOf(header["sequenceNumber"])}`;
  const time = timeOf(header["commitTimestamp"]);
  const events = known.map((id) => ({
    specversion: "1.0" as const,
    id: `${transaction}-${id}`,
    source: "/salesforce",
    type,
    subject: `${object}/${id}`,
    ...(time !== undefined && { time }),
    sequence: sequenceOf(header),
    ...(type !== "crm.record.deleted" && { data: data(id) }),
  }));
  return { events, gaps: recordIds.length - known.length };
}

/** Changes of one transaction have the same time; commit numbers have up to 19 digits. */
const sequenceOf = (header: Json): string =>
  [
    textOf(header["commitNumber"]).padStart(COMMIT_DIGITS, "0"),
    textOf(header["sequenceNumber"]).padStart(SEQUENCE_DIGITS, "0"),
  ].join("-");

/**
 * The data of each record that a change is about. Events of new and undeleted records hold all
 * fields, events of updates only those changed.
 */
function dataOf(payload: Json, change: string, records: number, canFetch: boolean) {
  const isWhole = change === "CREATE" || change === "UNDELETE";
  if (!isWhole || canFetch) return () => ({ fetch: "salesforce" });
  const record = flatten(payload);
  if (records > 1 && records * JSON.stringify(record).length > MAX_COPIED) {
    throw new WebhookBodyError(
      `recordIds has ${records} entries, each with a copy of a large record: send fewer at once`,
    );
  }
  // An undeleted record has had formulas and fields of its own, of which change events tell nothing.
  const isPartial = change === "UNDELETE";
  return (id: string) => ({
    record: { ...record, Id: id },
    ...(isPartial && { partial: true as const }),
  });
}

/** Names compound fields as the REST API does: MailingAddress.City becomes MailingCity. */
function flatten(payload: Json): Record<string, unknown> {
  const record: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(payload)) {
    if (name === "ChangeEventHeader") continue;
    if (!isObject(value)) record[name] = value;
    else if (name === "Name") Object.assign(record, value);
    else if (name.endsWith("Address")) {
      const prefix = name.slice(0, -"Address".length);
      for (const [part, text] of Object.entries(value)) record[prefix + part] = text;
    }
  }
  if (record["PersonContactId"] !== undefined) record["IsPersonAccount"] = true;
  return record;
}

function eventsOfSoap(request: WebhookRequest, canFetch: boolean): Translated {
  const { organizationId, notifications } = messageOf(textOfBody(request));
  return eventsOfEach(notifications, (notification) => {
    const { id, object, fields } = notificationOf(notification);
    const time = timeOf(fields["SystemModstamp"] ?? fields["LastModifiedDate"]);
    const event: WebhookEvent = {
      specversion: "1.0",
      id,
      source: `/salesforce/${organizationId}`,
      type: "crm.record.updated",
      subject: `${object}/${required(fields["Id"], "sObject Id")}`,
      ...(time !== undefined && { time }),
      // A message lacks the fields that were not selected for it, and those that are empty.
      data: canFetch ? { fetch: "salesforce" } : { record: fields, partial: true },
    };
    return [event];
  });
}

/** How long the fields of an object count as known, ms. */
const FIELDS_KEPT_MS = 300_000;

export const salesforceRelations: RelationReader = {
  idField: () => "Id",
  // An address may have 16,000 characters.
  most: 200,
  async find(api, { field, fields, object, values }, cursor) {
    if (cursor !== undefined) return pageOf(api, cursor);
    const names = await fieldsOf(api, object, FIELDS_KEPT_MS);
    if (!Array.isArray(names)) return names;
    if (field !== "Id" && !names.includes(field)) {
      const reason = `${object} has no field ${field}, or the app may not read it`;
      return { kind: "client_error", reason };
    }
    const wanted = names.filter((name) => name !== "Id" && (fields.has(name) || name === field));
    const list = values.map((value) => `'${value}'`).join(",");
    const query = `SELECT ${["Id", ...wanted].join(",")} FROM ${object} WHERE ${field} IN (${list})`;
    return pageOf(api, queryAddress(api, "query", query));
  },
};
