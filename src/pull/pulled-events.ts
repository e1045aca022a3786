/** What a CRM has told when it was asked, as events: those of webhooks about the same record agree with them by order. */
import type { PulledChange } from "../crm/change-puller.ts";
import type { WebhookEvent } from "../crm/connector.ts";
import type { Json } from "../crm/json-value.ts";
import type { ContentHash } from "../event/event-order.ts";
import type { Lane } from "../event/lane.ts";

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
  const { askedBy, at, id, record } = change;
  const time = at ?? new Date(askedAt).toISOString();
  const type = record === undefined ? "crm.record.deleted" : "crm.record.updated";
  return withId(
    {
      type,
      time,
      // When it changed, where that cannot be compared with the times of other events.
      ...(at === undefined && askedBy !== undefined && { sequence: askedBy }),
      ...(record !== undefined && { data: dataOf(record, from) }),
    },
    id,
    from,
  );
}

/** @param asOf the record is as it was then, or newer, ms. */
export const eventOfListed = (
  { id, record }: { readonly id: string; readonly record: Json },
  asOf: number,
  from: From,
): PulledEvent =>
  withId(
    {
      type: "crm.record.updated",
      time: new Date(asOf).toISOString(),
      lane: "bulk",
      data: { record, partial: true },
    },
    id,
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

/** The same change is the same event, however often it is pulled. */
function withId(
  event: Omit<PulledEvent, "specversion" | "id" | "source" | "subject">,
  recordId: string,
  { contentOf, crm, object }: From,
): PulledEvent {
  const subject = `${object}/${recordId}`;
  const source = `${SOURCE}${crm}`;
  const id = `${recordId}-${contentOf({ ...event, subject, source })}`.slice(-512);
  return { specversion: "1.0", id, source, subject, ...event };
}
