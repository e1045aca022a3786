/**
 * HubSpot webhooks v3: lists of changes without the records, in any order, some of them twice.
 * HubSpot waits 5 s for the response, and tries up to ten times within a day.
 */
import { isObject } from "../../core/event/problem.ts";
import { isSignedBy } from "../../base/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import {
  hubspotHeaders,
  lacking,
  listPage,
  NO_PROPERTIES,
  objectsAddress,
  propertiesOf,
  schemaOf,
  withEmpty,
  pageOf,
  type Asked,
} from "./hubspot-api.ts";
import { lastMomentOf, textOf, timeOf, type Json } from "./json-value.ts";
import { withRecords, NO_LIST, type ListedRecord, type NotListed } from "./record-lister.ts";
import { toFetchedRecord, type NotFound, isReadable } from "./record-reader.ts";
import { eventsOfEach, jsonOf, listOf, required, WebhookBodyError } from "./webhook-body.ts";
import { changesByTime, toTimedPage, type ObjectChanges, type TimedPage } from "./change-puller.ts";

/** How far the signature's time may be from our clock, ms; HubSpot's own rule. */
const TOLERANCE_MS = 300_000;

/** Objects of the generic subscriptions (`object.*`), by type id, as the other subscriptions call them. */
export const OBJECTS: ReadonlyMap<string, string> = new Map([
  ["0-1", "contact"],
  ["0-2", "company"],
  ["0-3", "deal"],
  ["0-5", "ticket"],
  ["0-7", "product"],
  ["0-8", "line_item"],
]);

/** HubSpot decodes these escapes of the URL before it signs. */
const UNESCAPED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

export const hubspot: CrmConnector = {
  name: "hubspot",
  secretName: "HUBSPOT_WEBHOOK_SECRET",
  rememberForS: (2 * TOLERANCE_MS) / 1000,

  verify({ headers, urls, body, receivedAt }, secrets) {
    const signature = headers["x-hubspot-signature-v3"];
    const timestamp = headers["x-hubspot-request-timestamp"] ?? "";
    if (signature === undefined) {
      return { ok: false, why: "the header X-HubSpot-Signature-v3 is missing" };
    }
    if (!/^\d{1,15}$/.test(timestamp) || Math.abs(receivedAt - Number(timestamp)) > TOLERANCE_MS) {
      return { ok: false, why: "X-HubSpot-Request-Timestamp is not within 5 minutes of now" };
    }
    if (body === undefined) return { ok: true, needsBody: true };
    const isSigned = urls.some((url) => {
      const uri = url.replace(UNESCAPED, (escaped) => decodeURIComponent(escaped));
      return isSignedBy(secrets, ["POST", uri, body, timestamp], "base64", signature);
    });
    return isSigned
      ? { ok: true, requestKey: `${timestamp}.${signature}` }
      : {
          ok: false,
          why: "the signature is not that of the secret; is WEBHOOKS_PUBLIC_URL the address that HubSpot calls?",
        };
  },

  toEvents(request): Translated {
    const changes = jsonOf(request);
    return eventsOfEach(listOf(changes, "the body"), eventsOf);
  },

  needs: ["HUBSPOT_API_URL", "HUBSPOT_TOKEN"],
  pauseMs: 150,
  // HubSpot allows five searches a second.
  searchPauseMs: 250,

  reader: {
    hasOneClock: true,
    async fetchRecord(api, object, recordId, fields) {
      const names = propertiesOf(fields);
      if (names.length === 0) return NO_PROPERTIES;
      const address = objectsAddress(api, object, recordId);
      const query = new URLSearchParams({ properties: names.join(",") });
      const result = await api.get(`${address}?${query.toString()}`, hubspotHeaders(api));
      const fetched = toFetchedRecord(result, {
        recordId,
        id: "id",
        // HubSpot answers with the survivor for the id of a record that was merged into it.
        otherId: "missing",
        modifiedAt: changedAt,
        isAboutRecord,
      });
      if (fetched.kind !== "found" || lacking(fetched.record, names).length === 0) return fetched;
      const known = await schemaOf(api, object);
      if (!(known instanceof Set)) return known;
      return { ...fetched, record: withEmpty(fetched.record, names, known) };
    },
  },

  async open(api, object, fields) {
    const names = propertiesOf(fields);
    if (names.length === 0) return NO_PROPERTIES;
    const known = await schemaOf(api, object);
    if (!(known instanceof Set)) return known;
    const query = { archived: "false", properties: names.join(",") };
    return {
      kind: "records",
      async list(after) {
        const page = await listPage(api, object, query, after);
        return withRecords(page, (record) => withEmpty(record, names, known));
      },
      timeOf: changedAt,
      changes: hubspotChanges({ api, object, names, known }),
    };
  },
};

const changedAt = ({ updatedAt }: Json): string | undefined => lastMomentOf(updatedAt);

/** HubSpot's 404 about a record that it does not have has no category, unless the id is not a number. */
function isAboutRecord({ code, body }: NotFound): boolean {
  if (!isObject(body) || body["status"] !== "error") return false;
  if (code === "OBJECT_NOT_FOUND") return true;
  return (
    textOf(body["correlationId"]) !== "" && /^resource not found$/i.test(textOf(body["message"]))
  );
}

function eventsOf(change: unknown): WebhookEvent[] {
  if (!isObject(change)) throw new WebhookBodyError("a change is not an object");
  // Older accounts send eventType.
  const subscription = required(
    change["subscriptionType"] ?? change["eventType"],
    "subscriptionType",
  );
  const [prefix = "", what = ""] = subscription.split(".");
  // A change of an association names both of its ends: the record is where it begins.
  const typeId = textOf(change["objectTypeId"]) || textOf(change["fromObjectTypeId"]);
  const object = prefix === "object" ? (OBJECTS.get(typeId) ?? typeId) : prefix;
  if (object === "") throw new WebhookBodyError("objectTypeId is missing");
  const recordId = required(change["objectId"] ?? change["fromObjectId"], "objectId");
  const event = (type: WebhookEvent["type"], id: string): WebhookEvent => ({
    ...envelopeOf(change, recordId),
    type,
    subject: `${object}/${id}`,
    ...(type !== "crm.record.deleted" && { data: { fetch: "hubspot" } }),
  });
  switch (what) {
    case "deletion":
    case "privacyDeletion":
      return [event("crm.record.deleted", recordId)];
    case "restore":
      return [event("crm.record.restored", recordId)];
    case "creation":
      return [event("crm.record.created", recordId)];
    case "merge":
      return mergeOf(change, recordId, event);
    // propertyChange, associationChange and future kinds: the fetched record shows what changed.
    default:
      return [event("crm.record.updated", recordId)];
  }
}

/** The survivor may be a new record; every other record of the merge is deleted. */
function mergeOf(
  change: Json,
  recordId: string,
  event: (type: WebhookEvent["type"], id: string) => WebhookEvent,
): WebhookEvent[] {
  const primary = textOf(change["primaryObjectId"]) || recordId;
  const survivor = textOf(change["newObjectId"]) || primary;
  const merged = listOf(change["mergedObjectIds"] ?? [], "mergedObjectIds");
  const deleted = new Set([primary, ...merged.map(textOf)].filter((id) => id !== ""));
  deleted.delete(survivor);
  const events = [...deleted].map((id) => event("crm.record.deleted", id));
  return [...events, event("crm.record.updated", survivor)].map((one) => ({
    ...one,
    id: `${one.id}-${one.subject}`,
  }));
}

/** HubSpot does not promise that eventId is unique; these five together are. */
function envelopeOf(change: Json, recordId: string) {
  const { portalId, subscriptionId, eventId, occurredAt } = change;
  const parts = [portalId, subscriptionId, eventId, recordId, occurredAt].map(textOf);
  const time = timeOf(occurredAt);
  return {
    specversion: "1.0",
    id: parts.join("-"),
    source: `/hubspot/${textOf(portalId)}`,
    ...(time !== undefined && { time }),
  } as const;
}

const hubspotChanges = (asked: Asked): ObjectChanges =>
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
