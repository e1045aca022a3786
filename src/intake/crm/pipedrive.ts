/**
 * Pipedrive webhooks v2: one change a request, with the most important fields of the record; its API
 * has the others. After ten deliveries that failed at the first try, Pipedrive sends nothing for half an hour.
 */
import { isObject } from "../../core/event/problem.ts";
import { isOneOf } from "../../base/secrets.ts";
import { basicOf, jsonOf, required, WebhookBodyError } from "./webhook-body.ts";
import type { CrmConnector, Translated, WebhookEvent } from "./connector.ts";
import { textOf, timeOf, type Json } from "./json-value.ts";
import { pipedriveRecords } from "./pipedrive-api.ts";

const TYPES: Readonly<Record<string, WebhookEvent["type"]>> = {
  create: "crm.record.created",
  change: "crm.record.updated",
  delete: "crm.record.deleted",
};

export const pipedrive: CrmConnector = {
  name: "pipedrive",
  secretName: "PIPEDRIVE_WEBHOOK_SECRET",
  rememberForS: 0,

  /** HTTP Basic: the secret is `user:password`, as given when the webhook was created. */
  verify({ headers }, secrets) {
    return isOneOf(basicOf(headers), secrets)
      ? { ok: true }
      : { ok: false, why: "the user and password (HTTP Basic) are missing or wrong" };
  },

  toEvents(request, canFetch): Translated {
    const body = jsonOf(request);
    if (!isObject(body) || !isObject(body["meta"])) throw new WebhookBodyError("meta is missing");
    const { meta, data, previous } = body;
    const type = TYPES[required(meta["action"], "meta.action")];
    if (type === undefined) {
      throw new WebhookBodyError(
        "meta.action is not create, change or delete, as in version 1: create the webhook with version 2.0",
      );
    }
    // Of a deletion, `previous` is the last record; of a change, only the former values of some fields.
    const last = type === "crm.record.deleted" && isObject(previous) ? previous : undefined;
    const record = isObject(data) ? data : last;
    if (record === undefined && type !== "crm.record.deleted") {
      throw new WebhookBodyError("data is missing");
    }
    return { events: [eventOf(type, meta, record, canFetch)] };
  },

  neverSent: {
    person: ["birthday", "postal_address", "job_title", "notes", "im"],
    organization: ["website", "linkedin", "industry", "annual_revenue", "employee_count"],
  },

  ...pipedriveRecords,
};

function eventOf(
  type: WebhookEvent["type"],
  meta: Json,
  record: Json | undefined,
  canFetch: boolean,
): WebhookEvent {
  const sent = timeOf(meta["timestamp"]);
  // update_time of a deleted record is that of its last change, not of the deletion.
  const changed = type === "crm.record.deleted" ? undefined : timeOf(record?.["update_time"]);
  const time = changed ?? sent;
  const id = textOf(meta["entity_id"]) || required(record?.["id"], "meta.entity_id");
  return {
    specversion: "1.0",
    id: required(meta["id"], "meta.id"),
    source: `/pipedrive/${textOf(meta["company_id"])}`,
    type,
    subject: `${required(meta["entity"], "meta.entity")}/${id}`,
    ...(time !== undefined && { time }),
    ...(sent !== undefined && { sequence: sent }),
    ...(record !== undefined && {
      data:
        canFetch && type !== "crm.record.deleted"
          ? { fetch: "pipedrive" }
          : { record, partial: true },
    }),
  };
}
