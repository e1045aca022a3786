/**
 * EspoCRM: lists of up to 50 records that name neither the event nor the entity, so that each
 * webhook needs an address of its own: /webhooks/espocrm/Contact/update. It tries again only after
 * 0, 401, 403, 404, 405, 408, 500 and 503, and an update comes without a time.
 */
import { createHmac, randomUUID } from "node:crypto";
import { isOneOf } from "../ops/secrets.ts";
import {
  addressOf,
  fetched,
  isObject,
  jsonOf,
  required,
  timeOf,
  WebhookBodyError,
  type Translated,
  type CrmConnector,
  type WebhookEvent,
} from "./connector.ts";

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  create: "crm.record.created",
  update: "crm.record.updated",
  delete: "crm.record.deleted",
};

export const espocrm: CrmConnector = {
  name: "espocrm",
  secretName: "ESPOCRM_WEBHOOK_SECRET",
  copyMemoryS: 0,

  /** `Signature` is base64 of the webhook's id, a colon, and the HMAC in hex. */
  verify({ headers, body }, secrets) {
    const shown = Buffer.from(headers["signature"] ?? "", "base64").toString("utf8");
    const colon = shown.indexOf(":");
    if (colon < 1) return { ok: false, why: "the header Signature is missing or not base64" };
    const made = secrets.map((secret) => createHmac("sha256", secret).update(body).digest("hex"));
    return isOneOf(shown.slice(colon + 1), made)
      ? { ok: true }
      : { ok: false, why: "the signature is not that of any configured secret" };
  },

  toEvents(request, canFetch): Translated {
    const [object = "", action = ""] = request.path.split("/");
    const type = TYPES[action];
    if (object === "" || type === undefined) {
      throw new WebhookBodyError(
        "the address must end in /<Entity>/<create|update|delete>, since EspoCRM does not say which it is",
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
      const answer = await api.get(url, { "x-api-key": api.setting("ESPOCRM_API_KEY") });
      // Its events have our clock's time, so its own cannot be compared with them.
      return fetched(answer, undefined);
    },
  },
};

/**
 * Two true events may have equal bodies (A → B → A → B), so nothing in them can tell a copy: each
 * gets an id of its own, and its time is when it came.
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
