/** Twenty sends the whole record with every event, once, and waits 5 s for the response. */
import { isObject } from "../../core/event/problem.ts";
import { createHash } from "node:crypto";
import { isSignedBy } from "../../base/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { textOf, timeOf, type Json } from "./json-value.ts";
import { changedAt, twentyRecords } from "./twenty-api.ts";
import { jsonOf, required, WebhookBodyError } from "./webhook-body.ts";

/** Twenty documents no tolerance; five minutes are usual for webhooks, ms. */
const TOLERANCE_MS = 300_000;

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  created: "crm.record.created",
  updated: "crm.record.updated",
  upserted: "crm.record.updated",
  deleted: "crm.record.deleted",
  destroyed: "crm.record.deleted",
  restored: "crm.record.restored",
};

export const twenty: CrmConnector = {
  name: "twenty",
  secretName: "TWENTY_WEBHOOK_SECRET",
  rememberForS: (2 * TOLERANCE_MS) / 1000,

  verify({ headers, body, receivedAt }, secrets) {
    const signature = headers["x-twenty-webhook-signature"];
    const timestamp = headers["x-twenty-webhook-timestamp"] ?? "";
    if (signature === undefined) {
      return { ok: false, why: "the header X-Twenty-Webhook-Signature is missing" };
    }
    if (!/^\d{1,15}$/.test(timestamp) || Math.abs(receivedAt - Number(timestamp)) > TOLERANCE_MS) {
      return { ok: false, why: "X-Twenty-Webhook-Timestamp is not within 5 minutes of now" };
    }
    if (body === undefined) return { ok: true, needsBody: true };
    return isSignedBy(secrets, [timestamp, ":", body], "hex", signature.toLowerCase())
      ? { ok: true, requestKey: `${timestamp}.${signature.toLowerCase()}` }
      : { ok: false, why: "the signature is not that of the secret" };
  },

  toEvents(request): Translated {
    const body = jsonOf(request);
    if (!isObject(body)) throw new WebhookBodyError("the body is not an object");
    // Twenty's documentation has { event, data, timestamp }, its requests have other names.
    const name = required(body["eventName"] ?? body["event"], "eventName");
    // A webhook about everything also tells of changes to the data model.
    if (name.startsWith("metadata.")) return { events: [] };
    const record = body["record"] ?? body["data"];
    if (!isObject(record)) throw new WebhookBodyError("record is missing");
    const [object = "", action = ""] = name.split(".");
    const type = TYPES[action];
    if (type === undefined || object === "") {
      throw new WebhookBodyError(`eventName is not <object>.<${Object.keys(TYPES).join("|")}>`);
    }
    return { events: [eventOf(type, object, record, body, request.body)] };
  },

  ...twentyRecords,
};

function eventOf(
  type: WebhookEvent["type"],
  object: string,
  record: Json,
  body: Json,
  bytes: Buffer,
): WebhookEvent {
  const sent = timeOf(body["eventDate"] ?? body["timestamp"]);
  const time = changedAt(record) ?? sent;
  const hash = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  return {
    specversion: "1.0",
    id: `${textOf(body["webhookId"])}-${object}-${hash}`,
    source: `/twenty/${textOf(body["workspaceId"])}`,
    type,
    subject: `${object}/${required(record["id"], "record.id")}`,
    ...(time !== undefined && { time }),
    ...(sent !== undefined && { sequence: sent }),
    data: { record, partial: true },
  };
}
