/**
 * EspoCRM sends lists of up to 50 records that name neither the event nor the entity: each webhook
 * needs its own address, such as /webhooks/espocrm/Contact/update. It tries again only after 0 (no
 * connection), 401, 403, 404, 405, 408, 500 and 503. An update has no time.
 *
 * The signature covers neither address nor time. So each address has a secret of its own, and a
 * copy of a deletion is recognised by the record that still exists.
 */
import { isObject } from "../../core/event/problem.ts";
import { randomUUID } from "node:crypto";
import { isSignedBy } from "../../base/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { espocrmRecords } from "./espocrm-api.ts";
import { timeOf } from "./json-value.ts";
import { eventsOfEach, jsonOf, listOf, required, WebhookBodyError } from "./webhook-body.ts";

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  create: "crm.record.created",
  update: "crm.record.updated",
  delete: "crm.record.deleted",
};

export const espocrm: CrmConnector = {
  name: "espocrm",
  secretName: "ESPOCRM_WEBHOOK_SECRET",
  rememberForS: 0,
  tooFast: 503,

  /** `Signature` is base64 of the webhook's id, a colon, and the HMAC in hex. */
  verify({ headers, path, body }, secrets) {
    const given = Buffer.from(headers["signature"] ?? "", "base64").toString("utf8");
    const colon = given.indexOf(":");
    if (colon < 1) return { ok: false, why: "the header Signature is missing or not base64" };
    if (body === undefined) return { ok: true, needsBody: true };
    return isSignedBy(secretsFor(path, secrets), [body], "hex", given.slice(colon + 1))
      ? { ok: true }
      : { ok: false, why: "the signature is not that of the secret for this address" };
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
    return eventsOfEach(listOf(records, "the body"), (record) => [
      eventOf(type, object, record, canFetch, request.receivedAt),
    ]);
  },

  ...espocrmRecords,
};

/** Secrets are written as `Contact/update=<secret>`; one without an address is good for none. */
const secretsFor = (path: string, secrets: readonly string[]): string[] =>
  secrets.flatMap((text) => (text.startsWith(`${path}=`) ? [text.slice(path.length + 1)] : []));

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
  const data =
    type === "crm.record.created" && !canFetch
      ? ({ record, partial: true } as const)
      : type !== "crm.record.deleted" || canFetch
        ? { fetch: "espocrm" }
        : undefined;
  return {
    specversion: "1.0",
    id: randomUUID(),
    source: "/espocrm",
    type,
    subject: `${object}/${required(record["id"], "id")}`,
    time: timeOf(receivedAt) ?? "",
    ...(data !== undefined && { data }),
  };
}
