/** Accepts the events of dead letters again, each in the place that it had among those of its record. */
import { parseEvent, splitSubject } from "../src/event/crm-event.ts";
import { mapEventRecord } from "../src/mapping/map-event-record.ts";
import type { StoredDeadLetter } from "../src/state/dead-letters.ts";
import {
  acceptEvent,
  identityOf,
  type Accepted,
  type AcceptPorts,
  type Arrival,
} from "../src/sync/accept-event.ts";
import { isTenantProblem } from "../src/sync/tenant-problems.ts";
import { validatePayload } from "../src/sync/validate.ts";
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

/** Redrives the dead letters that the tenant's value lists were relaxed for. */
export async function redriveAllowed(runtime: Runtime): Promise<void> {
  const { deadLetters, inbox, log, tenantLists } = runtime;
  let redriven = 0;
  try {
    for await (const letter of deadLetters.all()) {
      if (letter.reason !== "invalid" || !letter.problems.every(isTenantProblem)) continue;
      if (!(await isValidNow(runtime, letter))) continue;
      await inbox.redrive(letter.id);
      redriven += 1;
    }
  } finally {
    await tenantLists.endRelaxed();
  }
  if (redriven > 0) log.info({ records: redriven, why: "value lists" }, "dead_letter.redriven");
}

/** Whether the record of a dead letter passes with the lists as they are now. */
async function isValidNow(
  { clock, mapping, tenantLists }: Runtime,
  letter: StoredDeadLetter,
): Promise<boolean> {
  const parsed = parseEvent(parse(letter.event), clock.now());
  if (!parsed.ok) return false;
  const { type, source, subject, data } = parsed.event;
  const lists = tenantLists.current();
  const context = { type, source, subject, ...splitSubject(subject) };
  const mapped = await mapEventRecord(mapping, context, data?.record, lists);
  if (mapped.kind !== "mapped" || mapped.candidate === undefined) return false;
  return validatePayload(mapped.candidate, lists).ok;
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
