/** Twenty sends the whole record with every event, once, and waits 5 s for the response. */
import { createHash } from "node:crypto";
import { isSignedBy } from "../ops/secrets.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { isObject, textOf, timeOf, type Json } from "./json-value.ts";
import { pluralOf, toPage } from "./record-lister.ts";
import { addressOf, type ApiResult, type RecordApi } from "./record-reader.ts";
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

  lister: {
    needs: ["TWENTY_API_URL", "TWENTY_API_KEY"],
    // Twenty allows 100 requests a minute.
    pauseMs: 700,
    async open(api, object, fields) {
      const one = await ask(api, object, { limit: "1" });
      const sample = pageOf(one, object);
      if (sample.kind !== "page") return sample;
      const has = Object.keys(sample.records[0]?.record ?? {});
      const names = has.filter((name) => fields.has(name) || name === "deletedAt");
      // Of a large object the answer has only some fields: ask for each of the others.
      const isCapped =
        one.kind === "found" && one.headers?.["x-twenty-fields-capped"] !== undefined;
      const others = isCapped ? [...fields].filter((name) => !has.includes(name)) : [];
      for (const name of others.filter((other) => /^[a-z]\w*$/i.test(other))) {
        const found = await ask(api, object, { limit: "1", fields: `id,${name}` });
        if (found.kind === "found") names.push(name);
        else if (found.kind !== "client_error" || found.isDenied) return found;
      }
      const query = await selectionOf(api, object, names);
      if ("kind" in query) return query;
      return {
        kind: "listing",
        page: async (cursor) =>
          pageOf(
            await ask(api, object, {
              limit: String(RECORDS_A_PAGE),
              ...query,
              ...(cursor !== undefined && { starting_after: cursor }),
            }),
            object,
          ),
      };
    },
  },
};

/** A relation is a column in the answer, `companyId`, and is asked for by its own name, `company`. */
const relationOf = (name: string): string => name.replace(/(?<=[a-z])Id$/, "");

/** What selects these fields, if this version of Twenty can. */
async function selectionOf(api: RecordApi, object: string, names: readonly string[]) {
  for (const list of names.length === 0 ? [] : [names, names.map(relationOf)]) {
    const fields = ["id", ...list].join(",");
    const one = await ask(api, object, { limit: "1", fields });
    if (one.kind === "found") return { fields };
    if (one.kind !== "client_error" || one.isDenied === true) return one;
  }
  return {};
}

/** The most that Twenty gives at once; older versions give less. */
const RECORDS_A_PAGE = 200;

const pluralName = (object: string): string => PLURALS[object] ?? pluralOf(object);

function ask(api: RecordApi, object: string, more: Readonly<Record<string, string>>) {
  const base = addressOf(api.setting("TWENTY_API_URL"), "/rest", pluralName(object));
  // Without depth the records of other objects come along.
  const query = new URLSearchParams({ depth: "0", order_by: "id", ...more });
  const headers = { authorization: `Bearer ${api.setting("TWENTY_API_KEY")}` };
  return api.get(`${base}?${query.toString()}`, headers);
}

const pageOf = (result: ApiResult, object: string) =>
  toPage(result, "id", ({ data, pageInfo, totalCount: total }) => {
    if (!isObject(data) || !isObject(pageInfo)) return undefined;
    const { hasNextPage, endCursor } = pageInfo;
    if (typeof hasNextPage !== "boolean") return undefined;
    const list = data[pluralName(object)];
    return { list, total, next: hasNextPage ? (endCursor ?? "") : undefined };
  });

export const PLURALS: Readonly<Record<string, string>> = { person: "people" };

function eventOf(
  type: WebhookEvent["type"],
  object: string,
  record: Json,
  body: Json,
  bytes: Buffer,
): WebhookEvent {
  // updatedAt of a destroyed record is that of its last change, not of the destruction.
  const changes = [record["updatedAt"], record["deletedAt"]].map(timeOf);
  const sent = timeOf(body["eventDate"] ?? body["timestamp"]);
  const time =
    changes
      .filter((at) => at !== undefined)
      .toSorted()
      .at(-1) ?? sent;
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
