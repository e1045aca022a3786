/** Redrives dead letters: those that a person asks for, and those that the tenant's lists allow now. */
import { forecastsOf, openRedriveView, type RedriveView } from "../src/dead-letters/forecast.ts";
import { redrive } from "../src/dead-letters/redrive.ts";
import type { StoredDeadLetter } from "../src/state/dead-letters.ts";
import type { Accepted, AcceptPorts } from "../src/sync/accept-event.ts";
import { isTenantProblem } from "../src/sync/tenant-problems.ts";
import { reportAccepted } from "./report-accepted.ts";
import type { Runtime } from "./runtime.ts";

/** @returns `again` when it must be done again later (`Redriven.again`). */
export async function redriveDeadLetter(
  runtime: Runtime,
  id: string,
  ports: AcceptPorts,
): Promise<"done" | "again"> {
  const { clock, deadLetters, log, metrics, recordName } = runtime;
  const letter = await deadLetters.find(id);
  const now = clock.now();
  const redriven = letter && (await redrive(letter, now, ports, runtime));
  if (redriven === undefined) return "done";
  const { again, dropped, event, records } = redriven;
  if (again) return "again";
  const source = metrics.sourceLabel(event?.source ?? "unknown");
  for (const record of records) reportAccepted(runtime, record, event, source, now);
  if (dropped) {
    const record = recordName(letter?.crmCode ?? event?.subject);
    log.info({ record, source, why: outcomeOf(records) }, "dead_letter.dropped");
  }
  return "done";
}

/** Redrives the dead letters that may pass now that the tenant's value lists have changed. */
export async function redriveAllowed(runtime: Runtime): Promise<void> {
  const { deadLetters, inbox, log, tenantLists } = runtime;
  let redriven = 0;
  try {
    const view = await openRedriveView(runtime, runtime.mapping);
    for await (const letter of deadLetters.all()) {
      if (!isRejectedEnd(letter) && !(await isAllowed(letter, view))) continue;
      await inbox.redrive(letter.id);
      redriven += 1;
    }
  } finally {
    await tenantLists.endChange();
  }
  if (redriven > 0) log.info({ records: redriven, why: "value lists" }, "dead_letter.redriven");
}

/** Clocks of processes and of Redis may differ by this, ms. */
const CLOCKS_MS = 5000;

/** The service accepts what it has rejected before: redrives the changes that it has rejected since `since`, ms. */
export async function redriveRejected(runtime: Runtime, since: number): Promise<void> {
  const { deadLetters, inbox, log } = runtime;
  let redriven = 0;
  for await (const { at, id, reason } of deadLetters.details()) {
    if (reason !== "service_rejected" || at < since - CLOCKS_MS) continue;
    await inbox.redrive(id);
    redriven += 1;
  }
  if (redriven > 0)
    log.info({ records: redriven, why: "false rejections" }, "dead_letter.redriven");
}

/** Whether only the tenant's lists were in the way of the change, and no longer are. */
async function isAllowed(letter: StoredDeadLetter, view: RedriveView): Promise<boolean> {
  if (letter.reason !== "invalid" || !letter.problems.every(isTenantProblem)) return false;
  const [forecast] = await forecastsOf([letter], view);
  return forecast?.kind === "sent" || forecast?.kind === "settled";
}

/** A termination sends what the service has: without the values that have left the lists, it may pass. */
const isRejectedEnd = ({ newest, reason }: StoredDeadLetter): boolean =>
  reason === "service_rejected" && newest?.status === "terminated";

const outcomeOf = (records: readonly Accepted[]): string =>
  [...new Set(records.map(({ result }) => result))].join(", ");
