/** What follows once an event was accepted: counters and log lines. */
import type { CrmEvent } from "../src/event/crm-event.ts";
import type { Accepted } from "../src/sync/accept-event.ts";
import { IGNORE_REASONS } from "../src/sync/mapped.ts";
import { hashOf } from "../src/ops/log-names.ts";
import { isMissedByWebhooks, pulledFrom } from "../src/pull/pulled-events.ts";
import { hasWebhooks } from "../src/pull/pulled-crms.ts";
import { reportOutcome } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";

/**
 * @param source bounded name of the event's source.
 * @param since of a redriven event, from when its freshness counts, ms; default: the event's own time.
 */
export function reportAccepted(
  runtime: Runtime,
  record: Accepted,
  event: CrmEvent | undefined,
  source: string,
  since?: number,
): void {
  const { coalesced, crmCode, lane, problems, reason, result } = record;
  const common = { crmCode, lane, source };
  const isRedriven = since !== undefined;
  if (record.ignored !== undefined) reportIgnored(runtime, record, event, source);
  reportPulled(runtime, record, event);
  if (record.reused === true) runtime.metrics.countReused(source);
  if (coalesced) reportOutcome(runtime, { ...common, outcome: "coalesced" });
  switch (result) {
    case "fetching":
    case "waiting":
      return;
    case "staged":
    case "held":
      runtime.metrics.countPassed("intake");
      if (coalesced) return;
      runtime.tracing.note(() => ({
        "crmsync.outcome": "staged",
        "crmsync.lane": lane,
        "crmsync.record": crmCode && hashOf(crmCode),
      }));
      return;
    case "unchanged":
    case "nothing_to_terminate": {
      runtime.metrics.countPassed("intake");
      const time = event?.time === undefined ? runtime.clock.now() : Date.parse(event.time);
      const happenedAt = since ?? time;
      reportOutcome(runtime, { ...common, outcome: result, happenedAt });
      return;
    }
    case "superseded":
    case "duplicate":
    case "ignored":
    case "rejected":
      reportOutcome(runtime, { ...common, outcome: result, reason, problems, isRedriven });
  }
}

/** Counts whether a pulled change was new, and whether a webhook should have told of it. */
function reportPulled(
  { clock, config, metrics }: Runtime,
  { result }: Accepted,
  event: CrmEvent | undefined,
): void {
  const crm = event && pulledFrom(event.source);
  if (event === undefined || crm === undefined || result === "waiting") return;
  const isNew = result === "staged" || result === "held" || result === "fetching";
  metrics.pulledChanges.inc({ crm, result: isNew ? "new" : "known" });
  if (isNew && hasWebhooks(config, crm) && isMissedByWebhooks(event, clock.now())) {
    metrics.pulledChanges.inc({ crm, result: "missed" });
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
