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
import {
  addressOf,
  notAboutRecord,
  toFetchedRecord,
  type FetchedRecord,
  type NotFound,
  type RecordApi,
} from "./record-reader.ts";
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

  reader: {
    needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
    fetchRecord: readRecord,
  },

  lister: {
    needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
    pauseMs: 50,
    async open(api, object, fields) {
      const first = await listPage(api, object, { maxSize: 1 });
      if (first.kind !== "page") return first;
      const [listed] = first.records;
      const whole = listed && (await readRecord(api, object, listed.id));
      if (whole?.kind === "missing") {
        return { kind: "unavailable", reason: "a record was deleted while it was listed" };
      }
      if (whole !== undefined && whole.kind !== "found") return whole;
      // Lists leave out fields of several values, such as emailAddressData.
      const isPart =
        whole !== undefined &&
        [...fields].some((name) => name in whole.record && !(name in (listed?.record ?? {})));
      return {
        kind: "listing",
        page: (cursor) =>
          isPart
            ? readEach(api, object, cursor)
            : listPage(api, object, { after: cursor, maxSize: RECORDS_A_PAGE }),
      };
    },
  },
};

/** EspoCRM's own limit, unless its administrator has set another one. */
const RECORDS_A_PAGE = 200;

/** Records in a page when each is read by itself. */
const READ_A_PAGE = 20;

const headersOf = (api: RecordApi) => ({ "x-api-key": api.setting("ESPOCRM_API_KEY") });

async function readRecord(
  api: RecordApi,
  object: string,
  recordId: string,
): Promise<FetchedRecord> {
  const url = addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object, recordId);
  const result = await api.get(url, headersOf(api));
  if (result.kind === "not_found") return confirmMissing(api, object, recordId, result);
  // Without `modifiedAt`: events of EspoCRM carry our clock's time, which its own cannot be compared with.
  return toFetchedRecord(result, { recordId, id: "id" });
}

/** EspoCRM's 404 has no body, so a gateway's looks like it: an empty list is EspoCRM's own answer. */
async function confirmMissing(
  api: RecordApi,
  object: string,
  recordId: string,
  answer: NotFound,
): Promise<FetchedRecord> {
  const page = await listPage(api, object, { id: recordId, maxSize: 1 });
  switch (page.kind) {
    case "page":
      if (page.records.length === 0 && page.total === 0) return { kind: "missing" };
      return notAboutRecord(answer);
    case "not_found":
    case "not_a_list":
      return notAboutRecord(answer);
    case "throttled":
    case "client_error":
    case "unavailable":
      return page;
  }
}

/**
 * The records with the next higher ids, or the record with one id. Pages by offset would leave out
 * records when one of an earlier page is deleted meanwhile.
 */
async function listPage(
  api: RecordApi,
  object: string,
  { after, id, maxSize }: { after?: string | undefined; id?: string; maxSize: number },
): Promise<ListedPage | NotListed> {
  const query = new URLSearchParams({ maxSize: String(maxSize), orderBy: "id", order: "asc" });
  const value = after ?? id;
  if (value !== undefined) {
    query.set("where[0][type]", after === undefined ? "equals" : "greaterThan");
    query.set("where[0][attribute]", "id");
    query.set("where[0][value]", value);
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
  const page = await listPage(api, object, { after, maxSize: READ_A_PAGE });
  if (page.kind !== "page") return page;
  const records: { id: string; record: Json }[] = [];
  for (const { id } of page.records) {
    const whole = await readRecord(api, object, id);
    // It was deleted meanwhile.
    if (whole.kind === "missing") continue;
    if (whole.kind !== "found") return whole;
    if (textOf(whole.record["id"]) !== id) return NO_LIST;
    records.push({ id, record: whole.record });
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
