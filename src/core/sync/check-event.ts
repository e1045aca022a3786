/** The first step of THE PATH: is it an event, which records does it change, and in which order? Pure. */
import type { RecordChange } from "./mapped.ts";
import { parseEvent, type CrmEvent, type RecordIds } from "../event/crm-event.ts";
import { believableTime, eventKey, eventOrder } from "../event/event-order.ts";
import type { Problem } from "../event/problem.ts";
import type { NewestEvent } from "./dead-letter.ts";

/** What the mapping says of events. */
export interface EventRules {
  readonly ids: RecordIds;
  /**
   * An event whose record says that it is deleted, as a deletion.
   * @returns `unclear` where the record's word cannot be understood
   */
  asDeletion(
    event: CrmEvent,
    now: number,
  ): { readonly event: CrmEvent; readonly unclear?: Problem | undefined };
}

/** How an event arrived. */
export interface Arrival {
  /** When it arrived by the clock of Redis, ms: its order is never later than that. */
  readonly at: number;
  /** When its sender says that it was sent, ms; stands in for a `time` that the event lacks. */
  readonly sentAt?: number;
  /** Grows with every event received. */
  readonly number: number;
  /** A pull has read the record. */
  readonly isRead?: boolean;
  /** Of a redriven event: the order that it had when it came, and the present time, ms. */
  readonly order?: string | undefined;
  readonly redrivenAt?: number;
  /** Of a redriven event: a later one of its own record, which brought no fields. */
  readonly later?: LaterEvent | undefined;
}

export interface LaterEvent extends NewestEvent {
  readonly status: "terminated" | "active";
}

/** One record of an event, with all that later steps need to know of it. */
export interface CheckedRecord extends RecordChange {
  readonly event: CrmEvent;
  /** The event's key; "" for a merged record, which is not the last one of its event. */
  readonly key: string;
  readonly time: string;
  readonly order: string;
  readonly arrival: Arrival;
  readonly later: LaterEvent | undefined;
}

export type CheckedEvent =
  | {
      readonly ok: true;
      readonly event: CrmEvent;
      /** Those that were merged into its own come first: the event counts as seen once its own is staged. */
      readonly records: readonly CheckedRecord[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export const presentOf = ({ at, redrivenAt }: Arrival): number => redrivenAt ?? at;

/** @param value whatever a sender has added */
export function checkEvent(value: unknown, arrival: Arrival, rules: EventRules): CheckedEvent {
  const now = presentOf(arrival);
  const parsed = parseEvent(value, now, rules.ids);
  if (!parsed.ok) return parsed;
  const { event, unclear } = rules.asDeletion(parsed.event, now);
  const time = believableTime(event.time, arrival.sentAt ?? arrival.at, arrival.at);
  const order = arrival.order ?? eventOrder({ ...event, time }, arrival.number);
  const recordOf = (subject: string, key: string): CheckedRecord => {
    const later = subject === event.subject ? arrival.later : undefined;
    return { event, subject, key, time, order, arrival, later, status: later?.status, unclear };
  };
  const merged = event.data?.merged?.map((subject) => recordOf(subject, "")) ?? [];
  return { ok: true, event, records: [...merged, recordOf(event.subject, eventKey(event))] };
}
