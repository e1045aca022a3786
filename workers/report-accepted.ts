/** What follows once an event was accepted: pointer jobs, counters and log lines. */
import type { CrmEvent } from "../src/event/crm-event.ts";
import type { Accepted } from "../src/sync/accept-event.ts";
import { IGNORE_REASONS } from "../src/sync/mapped.ts";
import { hashOf } from "./log-names.ts";
import { reportOutcome } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";

/**
 * Adds pointer jobs for what was staged; a state that replaced a waiting one has its job already.
 * If this process dies before, the sweep adds them.
 */
export async function addPointers(
  { demand, pointers: queue }: Pick<Runtime, "demand" | "pointers">,
  records: readonly Accepted[],
): Promise<void> {
  const staged = records.flatMap(({ crmCode, lane, result, needsJob }) =>
    crmCode !== undefined && result === "staged" ? [{ crmCode, lane, needsJob }] : [],
  );
  const pointers = staged.filter(({ needsJob }) => needsJob);
  // Demand first: a fast worker must find the entry that it is going to remove. Both are on their way
  // at once, and Redis carries them out in this order.
  await Promise.all([
    staged.length > 0 && demand.changed(staged),
    pointers.length > 0 && queue.add(pointers),
  ]);
  await Promise.all(
    records.map(async ({ crmCode, expedite }) => {
      if (expedite && crmCode !== undefined) await queue.expedite(crmCode);
    }),
  );
}

/** @param source bounded name of the event's source. */
export function reportAccepted(
  runtime: Runtime,
  record: Accepted,
  event: CrmEvent | undefined,
  source: string,
): void {
  const { coalesced, crmCode, lane, problems, reason, result } = record;
  const common = { crmCode, lane, source };
  if (record.ignored !== undefined) reportIgnored(runtime, record, event, source);
  if (coalesced) reportOutcome(runtime, { ...common, outcome: "coalesced" });
  switch (result) {
    case "fetching":
    case "waiting":
      return;
    case "staged":
    case "held":
      runtime.metrics.countPassed("intake");
      if (coalesced) return;
      runtime.tracing.note({
        "crmsync.outcome": "staged",
        "crmsync.lane": lane,
        "crmsync.record": crmCode && hashOf(crmCode),
      });
      return;
    case "unchanged":
    case "nothing_to_terminate": {
      runtime.metrics.countPassed("intake");
      const happenedAt = event?.time === undefined ? Date.now() : Date.parse(event.time);
      reportOutcome(runtime, { ...common, outcome: result, happenedAt });
      return;
    }
    case "superseded":
    case "duplicate":
    case "ignored":
    case "rejected":
      reportOutcome(runtime, { ...common, outcome: result, reason, problems });
  }
}

function reportIgnored(
  { log, recordName }: Runtime,
  { crmCode, dropped, ignored, result }: Accepted,
  event: CrmEvent | undefined,
  source: string,
): void {
  const why = ignored && IGNORE_REASONS[ignored];
  const record = recordName(crmCode ?? event?.subject);
  if (dropped === true) log.info({ record, source, why: "ignored" }, "dead_letter.dropped");
  // A record that the service never had leaves nothing behind.
  if (result === "staged") log.info({ record, source, why }, "record.left");
  else log.debug({ record, source, why }, "record.ignored");
}
