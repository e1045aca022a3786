/** The event of a dead letter, as it is accepted again. */
import { subjectIn } from "../../core/event/crm-event.ts";
import { jsonIn } from "../../core/event/exact-json.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { Arrival, LaterEvent } from "../../core/sync/check-event.ts";

/** Undefined for what another client wrote, and is not JSON. */
export const parsedEvent = ({ event }: Pick<StoredDeadLetter, "event">): unknown => jsonIn(event);

/** The event as it came; its text where it is not JSON. */
export const eventOf = (letter: Pick<StoredDeadLetter, "event">): unknown =>
  parsedEvent(letter) ?? letter.event;

/** The record of the CRM, `<object>/<recordId>`; undefined where the event does not name it. */
export const subjectOf = (letter: Pick<StoredDeadLetter, "event">): string | undefined =>
  subjectIn(parsedEvent(letter));

/** The arrival of a redriven event: it keeps its old place among the events of its record. */
export function arrivalOf(
  letter: Pick<StoredDeadLetter, "arrival" | "firstAt" | "newest" | "order">,
  now: number,
): Arrival {
  const { order, firstAt, arrival = { at: firstAt, number: 0 } } = letter;
  const later = laterOf(letter);
  return { ...arrival, at: Math.min(arrival.at, now), order, redrivenAt: now, later };
}

/** The later event of its record, which brought no fields; undefined where the letter's own is the newest. */
export function laterOf({
  newest,
  order,
}: Pick<StoredDeadLetter, "newest" | "order">): LaterEvent | undefined {
  if (newest === undefined || newest.order === order || newest.status === "mapped")
    return undefined;
  return { order: newest.order, status: newest.status };
}
