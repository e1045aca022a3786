/** Accepts the events of dead letters again, each in the place that it had among those of its record. */
import { arrivalOf, parsedEvent } from "../src/dead-letters/stored-event.ts";
import { openRedriveView, forecastsOf } from "../src/dead-letters/forecast.ts";
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
  const value = letter && parsedEvent(letter);
  if (letter === undefined || value === undefined) return "done";
  // It was seen when it came.
  await staged.forgetEvent(identityOf(value, "").key);
  const { event, records } = await acceptEvent(
    value,
    arrivalOf(letter, runtime.clock.now()),
    ports,
  );
  await expediteStaged(runtime, records);
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
