/**
 * HubSpot webhooks v3: lists of changes without the records, in any order, some of them twice.
 * HubSpot waits 5 s for the response, and tries up to ten times within a day.
 */
import { isSignedBy } from "../ops/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { hubspotHeaders, objectsAddress, propertiesAddress } from "./hubspot-api.ts";
import { isObject, textOf, timeOf, type Json } from "./json-value.ts";
import { toPage } from "./record-lister.ts";
import { toFetchedRecord, type NotFound, type NotRead, type RecordApi } from "./record-reader.ts";
import { eventsOfEach, jsonOf, listOf, required, WebhookBodyError } from "./webhook-body.ts";

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

  reader: {
    needs: ["HUBSPOT_API_URL", "HUBSPOT_TOKEN"],
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
        modifiedAt: "updatedAt",
        isAboutRecord,
      });
      if (fetched.kind !== "found" || lacking(fetched.record, names).length === 0) return fetched;
      const known = await schemaOf(api, object);
      if (!(known instanceof Set)) return known;
      return { ...fetched, record: withEmpty(fetched.record, names, known) };
    },
  },

  /** Uses HubSpot's list: its search would end at 10,000 records. */
  lister: {
    needs: ["HUBSPOT_API_URL", "HUBSPOT_TOKEN"],
    pauseMs: 150,
    async open(api, object, fields) {
      const names = propertiesOf(fields);
      if (names.length === 0) return NO_PROPERTIES;
      const known = await schemaOf(api, object);
      if (!(known instanceof Set)) return known;
      const address = objectsAddress(api, object);
      return {
        kind: "listing",
        async page(after) {
          const query = new URLSearchParams({
            limit: "100",
            archived: "false",
            properties: names.join(","),
            ...(after !== undefined && { after }),
          });
          const result = await api.get(`${address}?${query.toString()}`, hubspotHeaders(api));
          const page = toPage(result, "id", ({ results: list, paging }) => {
            const next = isObject(paging) ? paging["next"] : undefined;
            if (next === undefined || next === null) return { list, next: undefined };
            return isObject(next) ? { list, next: next["after"] ?? "" } : undefined;
          });
          if (page.kind !== "page") return page;
          const records = page.records.map(({ id, record }) => {
            return { id, record: withEmpty(record, names, known) };
          });
          return { ...page, records };
        },
      };
    },
  },
};

/** HubSpot's 404 about a record that it does not have has no category, unless the id is not a number. */
function isAboutRecord({ code, body }: NotFound): boolean {
  if (!isObject(body) || body["status"] !== "error") return false;
  if (code === "OBJECT_NOT_FOUND") return true;
  return (
    textOf(body["correlationId"]) !== "" && /^resource not found$/i.test(textOf(body["message"]))
  );
}

/** HubSpot returns only the properties named, and ignores names that it does not know. */
const propertiesOf = (fields: ReadonlySet<string>): string[] =>
  [...fields].filter((name) => /^[a-z][a-z0-9_]*$/.test(name));

const lacking = ({ properties }: Json, names: readonly string[]): string[] =>
  isObject(properties) ? names.filter((name) => !Object.hasOwn(properties, name)) : [];

/** A property that the object has, and that the answer lacks, is empty; any other is not known. */
function withEmpty(record: Json, names: readonly string[], known: ReadonlySet<string>): Json {
  const empty = lacking(record, names).filter((name) => known.has(name));
  if (empty.length === 0) return record;
  const nulls = Object.fromEntries(empty.map((name) => [name, null]));
  return { ...record, properties: { ...(record["properties"] as Json), ...nulls } };
}

/** How long the properties of an object count as known, ms. */
const SCHEMA_KEPT_MS = 300_000;

/** The names of an object's properties; none where they are not there, or the token may not read them. */
async function schemaOf(api: RecordApi, object: string): Promise<Set<string> | NotRead> {
  const headers = hubspotHeaders(api);
  const result = await api.get(propertiesAddress(api, object), headers, SCHEMA_KEPT_MS);
  const isRefused = result.kind === "client_error" && result.reason.startsWith("HTTP 403");
  if (result.kind !== "found" && result.kind !== "not_found" && !isRefused) return result;
  const list = result.kind === "found" ? result.body["results"] : [];
  const properties = Array.isArray(list) ? (list as unknown[]) : [];
  return new Set(properties.map((one) => (isObject(one) ? textOf(one["name"]) : "")));
}

/** Asked for no property, HubSpot would return a few of its own choice, and all others would count as empty. */
const NO_PROPERTIES: NotRead = {
  kind: "client_error",
  reason: "the mapping names no properties to ask HubSpot for; a module must export them as reads",
};

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
