/** The event of a dead letter, as it is accepted again. */
import type { StoredDeadLetter } from "../state/dead-letters.ts";
import type { Arrival } from "../sync/accept-event.ts";

/** Undefined for what another client wrote, and is not JSON. */
export function parsedEvent({ event }: Pick<StoredDeadLetter, "event">): unknown {
  try {
    return JSON.parse(event) as unknown;
  } catch {
    return undefined;
  }
}

/** The event as it came; its text where it is not JSON. */
const eventOf = (letter: Pick<StoredDeadLetter, "event">): unknown =>
  parsedEvent(letter) ?? letter.event;

/** Before it, the event that brought the fields, where that is another one. Both as they came. */
export const eventsOf = (letter: Pick<StoredDeadLetter, "event" | "fieldsFrom">): unknown[] =>
  typeof letter.fieldsFrom === "object"
    ? [eventOf(letter.fieldsFrom), eventOf(letter)]
    : [eventOf(letter)];

/** The record of the CRM, `<object>/<recordId>`; undefined where the event does not name it. */
export function subjectOf(letter: Pick<StoredDeadLetter, "event">): string | undefined {
  const event = eventOf(letter);
  const subject =
    typeof event === "object" && event !== null && "subject" in event ? event.subject : undefined;
  return typeof subject === "string" ? subject : undefined;
}

export interface EventAgain {
  readonly value: unknown;
  readonly arrival: Arrival;
}

/**
 * Its events, each in the place that it had among those of its record: first the one that brought
 * the fields, where that is another one. Undefined: there is no event that could be sent.
 */
export function eventsAgain(letter: StoredDeadLetter, now: number): EventAgain[] | undefined {
  const { fieldsFrom, firstAt, arrival: came = { at: firstAt, number: 0 } } = letter;
  const again = ({ event, order }: Pick<StoredDeadLetter, "event" | "order">): EventAgain => ({
    value: parsedEvent({ event }),
    arrival: { ...came, at: Math.min(came.at, now), order, redrivenAt: now },
  });
  const own = again(letter);
  if (own.value === undefined) return undefined;
  return typeof fieldsFrom === "object" ? [again(fieldsFrom), own] : [own];
}
