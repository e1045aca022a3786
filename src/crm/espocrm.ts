/**
 * EspoCRM sends lists of up to 50 records that name neither the event nor the entity: each webhook
 * needs its own address, such as /webhooks/espocrm/Contact/update. It tries again only after 0 (no
 * connection), 401, 403, 404, 405, 408, 500 and 503. An update has no time.
 */
import { createHmac, randomUUID } from "node:crypto";
import { isOneOf } from "../ops/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { isObject, timeOf } from "./json-value.ts";
import { addressOf, toFetchedRecord } from "./record-reader.ts";
import { jsonOf, required, WebhookBodyError } from "./webhook-body.ts";

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  create: "crm.record.created",
  update: "crm.record.updated",
  delete: "crm.record.deleted",
};

export const espocrm: CrmConnector = {
  name: "espocrm",
  secretName: "ESPOCRM_WEBHOOK_SECRET",
  rememberForS: 0,

  /** `Signature` is base64 of the webhook's id, a colon, and the HMAC in hex. */
  verify({ headers, body }, secrets) {
    const given = Buffer.from(headers["signature"] ?? "", "base64").toString("utf8");
    const colon = given.indexOf(":");
    if (colon < 1) return { ok: false, why: "the header Signature is missing or not base64" };
    const expected = secrets.map((secret) =>
      createHmac("sha256", secret).update(body).digest("hex"),
    );
    return isOneOf(given.slice(colon + 1), expected)
      ? { ok: true }
      : { ok: false, why: "the signature is not that of any configured secret" };
  },

  toEvents(request, canFetch): Translated {
    const [object = "", action = ""] = request.path.split("/");
    const type = TYPES[action];
    if (object === "" || type === undefined) {
      throw new WebhookBodyError(
        "the address must end in /<Entity>/<create|update|delete>, since EspoCRM's request does not name them",
      );
    }
    const records = jsonOf(request);
    if (!Array.isArray(records)) throw new WebhookBodyError("the body is not a list of records");
    return {
      events: (records as unknown[]).map((record) =>
        eventOf(type, object, record, canFetch, request.receivedAt),
      ),
    };
  },

  reader: {
    needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
    async fetchRecord(api, object, recordId) {
      const url = addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object, recordId);
      const result = await api.get(url, { "x-api-key": api.setting("ESPOCRM_API_KEY") });
      // Events of EspoCRM carry our clock's time, which its own times cannot be compared with.
      return toFetchedRecord(result, undefined);
    },
  },
};

/**
 * Two different events may have equal bodies (A → B → A → B), so a copy cannot be recognised: each
 * event gets a new id, and the time at which it was received.
 */
function eventOf(
  type: WebhookEvent["type"],
  object: string,
  record: unknown,
  canFetch: boolean,
  receivedAt: number,
): WebhookEvent {
  if (!isObject(record)) throw new WebhookBodyError("a record is not an object");
  const isWhole = type === "crm.record.created" && !canFetch;
  return {
    specversion: "1.0",
    id: randomUUID(),
    source: "/espocrm",
    type,
    subject: `${object}/${required(record["id"], "id")}`,
    time: timeOf(receivedAt) ?? "",
    ...(type !== "crm.record.deleted" && {
      data: isWhole ? { record } : { fetch: "espocrm" },
    }),
  };
}
