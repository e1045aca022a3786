/** Accepts the event of a dead letter again, in the place that it had among the events of its record. */
import type { StoredDeadLetter } from "../src/state/dead-letters.ts";
import {
  acceptEvent,
  identityOf,
  type Accepted,
  type AcceptPorts,
  type Arrival,
} from "../src/sync/accept-event.ts";
import { addPointers, reportAccepted } from "./report-accepted.ts";
import type { Runtime } from "./runtime.ts";

/** @returns `waiting` when it must be done again, once the tenant's value lists are known. */
export async function redriveDeadLetter(
  runtime: Runtime,
  id: string,
  ports: AcceptPorts,
): Promise<"done" | "waiting"> {
  const { deadLetters, log, metrics, recordName, staged } = runtime;
  const letter = await deadLetters.find(id);
  const value = letter && parse(letter.event);
  if (letter === undefined || value === undefined) return "done";
  // It was seen when it came.
  await staged.forgetEvent(identityOf(value, "").key);
  const { event, records } = await acceptEvent(value, arrivalOf(letter, runtime), ports);
  await addPointers(runtime, records);
  if (records.some(({ result }) => result === "waiting")) return "waiting";
  const source = metrics.sourceLabel(event?.source ?? "unknown");
  for (const record of records) reportAccepted(runtime, record, event, source);
  // What was rejected again was stored again, and has changed.
  if (await deadLetters.dropRead(letter)) {
    const record = recordName(letter.crmCode ?? event?.subject);
    log.info({ record, source, why: outcomeOf(records) }, "dead_letter.dropped");
  }
  return "done";
}

/** Undefined for what another client wrote, and is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function arrivalOf(letter: StoredDeadLetter, { clock }: Runtime): Arrival {
  const { order, firstAt, arrival = { at: firstAt, number: 0 } } = letter;
  const redrivenAt = clock.now();
  return { ...arrival, at: Math.min(arrival.at, redrivenAt), order, redrivenAt };
}

const outcomeOf = (records: readonly Accepted[]): string =>
  [...new Set(records.map(({ result }) => result))].join(", ");
