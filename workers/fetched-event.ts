/** What a thin event becomes once the CRM has answered the fetch of its record. */
import type { FetchedRecord } from "../src/crm/record-reader.ts";
import type { CrmEvent } from "../src/event/crm-event.ts";
import type { TakenThinEvent } from "../src/state/thin-events.ts";

/** A record that is older than its event by more than this comes from a copy that lags behind, ms. */
const OLDER_MS = 5000;

type Found = Extract<FetchedRecord, { kind: "found" }>;

/** Whether an event says that its record was deleted. It is fetched all the same: the event may be late. */
export const isDeletion = ({ type }: CrmEvent): boolean => type === "crm.record.deleted";

/** When the change was, by its event; "" if that is not known. */
export const timeOf = ({ order }: Pick<TakenThinEvent, "order">): string =>
  order.split("\t")[0] ?? "";

/** Whether the record is from before its event. Comparable only where the CRM itself has sent the event. */
export function isOlder(
  { source, type }: CrmEvent,
  taken: TakenThinEvent,
  crm: string,
  { modifiedAt = "" }: Found,
): boolean {
  if (!source.startsWith(`/${crm}/`)) return false;
  // What is restored is as it was.
  if (type === "crm.record.restored") return false;
  return Date.parse(timeOf(taken)) - Date.parse(modifiedAt) > OLDER_MS;
}

/** The deletion of a record that the CRM does not have any more. */
export function confirmedDeletion(event: CrmEvent, { order }: TakenThinEvent) {
  const { fetch: _, ...data } = event.data ?? {};
  const time = timeOf({ order });
  return { ...event, id: fetchedId(event), ...(time !== "" && { time }), data };
}

/**
 * The event as if the CRM had sent the record. Its time is the later of the event's own and the
 * record's last change: a fetched record is at least as new as the event that asked for it. The records
 * that it merged were ended when it came: one of them may exist again.
 */
export function wholeEvent(event: CrmEvent, taken: TakenThinEvent, fetched: Found) {
  const { fetch: _, merged: __, of: ___, ...data } = event.data ?? {};
  const time = [timeOf(taken), fetched.modifiedAt]
    .filter((at) => at !== undefined && at !== "")
    .toSorted((a, b) => Date.parse(a ?? "") - Date.parse(b ?? ""))
    .at(-1);
  return {
    ...event,
    // A record that the CRM still has was not deleted, or exists again.
    ...((isDeletion(event) || event.type === "crm.record.merged") && {
      type: "crm.record.updated" as const,
    }),
    ...(taken.isLive && { lane: "live" as const }),
    id: fetchedId(event),
    ...(time !== undefined && { time }),
    // An API leaves out what its user may not read, and what it does not know any more.
    data: { ...data, record: fetched.record, partial: true },
  };
}

/**
 * The event of a record to which another one belongs that has changed. When the other one was deleted, its owner may have
 * been deleted with it; otherwise the CRM must have it (`of`).
 */
export function ownersEvent(event: CrmEvent, crm: string, owner: string): CrmEvent {
  return {
    ...event,
    id: `${event.id}+${owner}`.slice(-512),
    type: "crm.record.updated",
    subject: owner,
    data: { fetch: crm, ...(!isDeletion(event) && { of: owner }) },
  };
}

/** Whether an event is one that a fetch has made. */
export const isFetched = ({ id }: Pick<CrmEvent, "id">): boolean => /\+record-[0-9a-z]+$/.test(id);

const fetchedId = ({ id }: CrmEvent): string =>
  `${id}+record-${Date.now().toString(36)}`.slice(-512);
