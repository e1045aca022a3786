/** Accepts the events of dead letters again, each in the place that it had among those of its record. */
import { eventsAgain } from "../src/dead-letters/stored-event.ts";
import type { CrmEvent } from "../src/event/crm-event.ts";
import { openRedriveView, forecastsOf } from "../src/dead-letters/forecast.ts";
import type { StoredDeadLetter } from "../src/state/dead-letters.ts";
import {
  acceptEvent,
  identityOf,
  type Accepted,
  type AcceptPorts,
} from "../src/sync/accept-event.ts";
import { isTenantProblem } from "../src/sync/tenant-problems.ts";
import { expediteStaged, reportAccepted } from "./report-accepted.ts";
import type { Runtime } from "./runtime.ts";

/** @returns `waiting` when it must be done again, once the tenant's value lists are known. */
export async function redriveDeadLetter(
  runtime: Runtime,
  id: string,
  ports: AcceptPorts,
): Promise<"done" | "waiting"> {
  const { deadLetters, log, metrics, recordName, staged } = runtime;
  const letter = await deadLetters.find(id);
  const events = letter && eventsAgain(letter, runtime.clock.now());
  if (letter === undefined || events === undefined) return "done";
  const ended: Accepted[] = [];
  let last: { readonly event: CrmEvent | undefined; readonly source: string } | undefined;
  for (const [index, { value, arrival }] of events.entries()) {
    const isLast = index === events.length - 1;
    // It was seen when it came.
    await staged.forgetEvent(identityOf(value, "").key);
    const its = isLast ? ports : portsOfFields(ports, letter);
    const { event, records } = await acceptEvent(value, arrival, its);
    await expediteStaged(runtime, records);
    if (records.some(({ result }) => result === "waiting")) return "waiting";
    const source = metrics.sourceLabel(event?.source ?? "unknown");
    for (const record of records) reportAccepted(runtime, record, event, source);
    ended.push(...records);
    last = { event, source };
  }
  // What was rejected again was stored again, and has changed.
  if (await deadLetters.dropRead(letter)) {
    const record = recordName(letter.crmCode ?? last?.event?.subject);
    log.info({ record, source: last?.source, why: outcomeOf(ended) }, "dead_letter.dropped");
  }
  return "done";
}

/** The event that only brought the fields has no dead letter of its own: what is wrong with it is wrong with this one. */
const portsOfFields = (ports: AcceptPorts, letter: StoredDeadLetter): AcceptPorts => ({
  ...ports,
  async storeDeadLetter(found) {
    if (found.id !== letter.id) return ports.storeDeadLetter(found);
    const { event, order, source } = letter;
    const fieldsFrom = { event: found.event, order: found.order ?? "" };
    return ports.storeDeadLetter({ ...found, event, order, source, fieldsFrom });
  },
});

/** Redrives the dead letters that the tenant's value lists were relaxed for. */
export async function redriveAllowed(runtime: Runtime): Promise<void> {
  const { deadLetters, inbox, log, tenantLists } = runtime;
  let redriven = 0;
  try {
    const view = await openRedriveView(runtime, runtime.mapping);
    for await (const letter of deadLetters.all()) {
      if (letter.reason !== "invalid" || !letter.problems.every(isTenantProblem)) continue;
      const [forecast] = await forecastsOf([letter], view);
      if (forecast?.kind !== "sent" && forecast?.kind !== "settled") continue;
      await inbox.redrive(letter.id);
      redriven += 1;
    }
  } finally {
    await tenantLists.endRelaxed();
  }
  if (redriven > 0) log.info({ records: redriven, why: "value lists" }, "dead_letter.redriven");
}

const outcomeOf = (records: readonly Accepted[]): string =>
  [...new Set(records.map(({ result }) => result))].join(", ");
