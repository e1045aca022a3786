/** What a CRM has told when it was asked, as events: those of webhooks about the same record agree with them by order. */
import type { PulledChange } from "../crm/change-puller.ts";
import type { WebhookEvent } from "../crm/connector.ts";
import type { Json } from "../crm/json-value.ts";
import type { ListedRecord } from "../crm/record-lister.ts";
import type { ContentHash } from "../../core/event/event-order.ts";
import type { Lane } from "../../core/event/lane.ts";

/** Begins the source of every event that was pulled. */
const SOURCE = "/pull/";

/** A webhook may come so much later than its change, ms. */
const LATE_MS = 60_000;

/** The CRM that a source names; undefined: the event was not pulled. */
export const pulledFrom = (source: string): string | undefined =>
  source.startsWith(SOURCE) ? source.slice(SOURCE.length) : undefined;

/** As webhooks of the same CRM bring it. */
export type PulledEvent = WebhookEvent;

interface From {
  readonly crm: string;
  readonly object: string;
  readonly contentOf: ContentHash;
  /** The record needs others beside it, which the CRM is asked for. */
  readonly isThin: boolean;
}

/** @param askedAt when the CRM was asked, ms. */
export function eventOfChange(change: PulledChange, askedAt: number, from: From): PulledEvent {
  const { askedBy, at, record } = change;
  const time = at ?? new Date(askedAt).toISOString();
  const type = record === undefined ? "crm.record.deleted" : "crm.record.updated";
  return withId(
    {
      type,
      time,
      // When it changed, where that cannot be compared with the times of other events.
      ...(at === undefined && askedBy && { sequence: askedBy }),
      ...(record !== undefined && { data: dataOf(record, from) }),
    },
    change,
    from,
  );
}

/** @param time of its last change; if unknown, the time at which the pulled changes begin: each of these is newer. */
export const eventOfListed = (
  { id, record }: ListedRecord,
  time: string,
  from: From,
): PulledEvent =>
  withId(
    {
      type: "crm.record.updated",
      time,
      lane: "bulk",
      data: { record, partial: true },
    },
    { id, record },
    from,
  );

/** Whether no webhook has brought this change, although there was time for it. @param at when it arrived, ms. */
export const isMissedByWebhooks = (
  {
    lane,
    sequence,
    time,
  }: { lane: Lane; sequence?: string | undefined; time?: string | undefined },
  at: number,
): boolean => lane === "live" && at - Date.parse(sequence ?? time ?? "") > LATE_MS;

const dataOf = (record: Json, { crm, isThin }: From) =>
  isThin ? { fetch: crm } : { record, partial: true as const };

/** The same change is the same event, however often it is pulled: of two within one second, the records differ. */
function withId(
  event: Omit<PulledEvent, "specversion" | "id" | "source" | "subject">,
  { id: recordId, record }: Pick<PulledChange, "id" | "record">,
  { contentOf, crm, object }: From,
): PulledEvent {
  const subject = `${object}/${recordId}`;
  const source = `${SOURCE}${crm}`;
  const id = `${recordId}-${contentOf({ ...event, data: record, subject, source })}`.slice(-512);
  return { specversion: "1.0", id, source, subject, ...event };
}
