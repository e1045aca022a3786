/**
 * EspoCRM sends lists of up to 50 records that name neither the event nor the entity: each webhook
 * needs its own address, such as /webhooks/espocrm/Contact/update. It tries again only after 0 (no
 * connection), 401, 403, 404, 405, 408, 500 and 503. An update has no time.
 *
 * The signature covers neither address nor time. So each address has a secret of its own, and a
 * copy of a deletion is recognised by the record that still exists.
 */
import { randomUUID } from "node:crypto";
import { isSignedBy } from "../ops/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { isObject, textOf, timeOf, type Json } from "./json-value.ts";
import { NO_LIST, toPage, type ListedPage, type NotListed } from "./record-lister.ts";
import { addressOf, toFetchedRecord, type ApiResult, type RecordApi } from "./record-reader.ts";
import { jsonOf, listOf, required, WebhookBodyError } from "./webhook-body.ts";

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
    return {
      events: listOf(records, "the body").map((record) =>
        eventOf(type, object, record, canFetch, request.receivedAt),
      ),
    };
  },

  reader: {
    needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
    async fetchRecord(api, object, recordId) {
      const result = await readRecord(api, object, recordId);
      // Events of EspoCRM carry our clock's time, which its own times cannot be compared with.
      return toFetchedRecord(result, undefined);
    },
  },

  lister: {
    needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
    pauseMs: 50,
    async open(api, object, fields) {
      const first = await listAfter(api, object, undefined, 1);
      if (first.kind !== "page") return first;
      const [listed] = first.records;
      const whole = listed && (await readRecord(api, object, listed.id));
      if (whole !== undefined && whole.kind !== "found" && whole.kind !== "missing") return whole;
      // Lists leave out fields of several values, such as emailAddressData.
      const isPart =
        whole?.kind === "found" &&
        [...fields].some((name) => name in whole.body && !(name in (listed?.record ?? {})));
      return {
        kind: "listing",
        page: (cursor) =>
          isPart ? readEach(api, object, cursor) : listAfter(api, object, cursor, RECORDS_A_PAGE),
      };
    },
  },
};

/** EspoCRM's own limit, unless its administrator has set another one. */
const RECORDS_A_PAGE = 200;

/** Records in a page when each is read by itself. */
const READ_A_PAGE = 20;

const headersOf = (api: RecordApi) => ({ "x-api-key": api.setting("ESPOCRM_API_KEY") });

const readRecord = (api: RecordApi, object: string, recordId: string): Promise<ApiResult> =>
  api.get(addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object, recordId), headersOf(api));

/**
 * The records with the next higher ids. Pages by offset would leave out records when one of an
 * earlier page is deleted meanwhile.
 */
async function listAfter(
  api: RecordApi,
  object: string,
  after: string | undefined,
  maxSize: number,
): Promise<ListedPage | NotListed> {
  const query = new URLSearchParams({ maxSize: String(maxSize), orderBy: "id", order: "asc" });
  if (after !== undefined) {
    query.set("where[0][type]", "greaterThan");
    query.set("where[0][attribute]", "id");
    query.set("where[0][value]", after);
  }
  const url = `${addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object)}?${query.toString()}`;
  const result = await api.get(url, {
    ...headersOf(api),
    // Only the first page is counted.
    ...(after !== undefined && { "x-no-total": "true" }),
  });
  return toPage(result, "id", ({ list, total }) => {
    if (!Array.isArray(list) || typeof total !== "number") return undefined;
    // Without a count -1 means that there are more, -2 that there are not.
    const hasMore = total >= 0 ? total > list.length : total === -1;
    const last: unknown = (list as unknown[]).at(-1);
    const next = hasMore ? textOf(isObject(last) ? last["id"] : undefined) : undefined;
    return { list, next, ...(after === undefined && { total }) };
  });
}

/** A page of whole records, for mappings that read what lists leave out. */
async function readEach(
  api: RecordApi,
  object: string,
  after: string | undefined,
): Promise<ListedPage | NotListed> {
  const page = await listAfter(api, object, after, READ_A_PAGE);
  if (page.kind !== "page") return page;
  const records: { id: string; record: Json }[] = [];
  for (const { id } of page.records) {
    const whole = await readRecord(api, object, id);
    // It was deleted meanwhile.
    if (whole.kind === "missing") continue;
    if (whole.kind !== "found") return whole;
    if (textOf(whole.body["id"]) !== id) return NO_LIST;
    records.push({ id, record: whole.body });
  }
  return { ...page, records };
}

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
      ? { record }
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
