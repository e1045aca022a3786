/** Reports how a change ended: one counter, one span attribute, one log line. */
import type { Lane } from "../src/core/event/lane.ts";
import { type ChangeOutcome, problemFields } from "../src/core/sync/outcomes.ts";
import type { Problem } from "../src/core/event/problem.ts";
import { hashOf } from "../src/base/log-names.ts";
import type { Uses } from "./parts.ts";
import type { CrmEvent } from "../src/core/event/crm-event.ts";
import type { Accepted } from "../src/core/sync/end-record.ts";
import { IGNORE_REASONS } from "../src/core/sync/mapped.ts";
import { isMissedByWebhooks, pulledFrom } from "../src/intake/pull/pulled-events.ts";
import { hasWebhooks } from "../src/intake/pull/pulled-crms.ts";
import type { TakenState } from "../src/core/sync/run.ts";

export type OutcomeParts = Uses<
  "clock" | "config" | "log" | "metrics" | "rarely" | "recordName" | "retryLog" | "tracing"
>;

export interface EndedChange {
  readonly outcome: ChangeOutcome;
  /** Of a rejected change. */
  readonly reason?: string | undefined;
  readonly problems?: readonly Problem[] | undefined;
  /** It was rejected before, and counted then: it says nothing of the changes that come now. */
  readonly isRedriven?: boolean;
  readonly lane?: Lane | undefined;
  /** Undefined where the record is unknown. */
  readonly crmCode?: string | undefined;
  /** Bounded name of the event's source. */
  readonly source?: string | undefined;
  /** Requests that ended in `unavailable` before. */
  readonly tries?: number | undefined;
  /** When the change happened, ms; only of a change that is now proven on the service. */
  readonly happenedAt?: number | undefined;
}

/** Too frequent for a log line each: the counter tells them. */
const UNLOGGED: ReadonlySet<ChangeOutcome> = new Set([
  "coalesced",
  "superseded",
  "duplicate",
  "ignored",
]);

export function reportOutcome(parts: OutcomeParts, ended: EndedChange): void {
  const { metrics, log, tracing } = parts;
  const { outcome, reason, lane, crmCode, source, tries, happenedAt } = ended;
  metrics.changes.inc({ outcome });
  if (outcome === "rejected" && ended.isRedriven !== true)
    metrics.countRejected(reason ?? "defect", ended.problems);
  if (outcome === "created" || outcome === "updated") {
    metrics.countPassed("sync");
    if (lane !== undefined) metrics.countSent(lane);
  }
  const freshness = happenedAt && Math.max(0, (parts.clock.now() - happenedAt) / 1000);
  if (freshness !== undefined && lane !== undefined) metrics.observeFreshness(lane, freshness);
  tracing.note(() => ({
    "crmsync.outcome": outcome,
    "crmsync.reason": reason,
    "crmsync.lane": lane,
    "crmsync.record": crmCode && hashOf(crmCode),
    "crmsync.tries": tries,
  }));
  if (UNLOGGED.has(outcome)) return;
  log.info(
    {
      record: parts.recordName(crmCode),
      outcome,
      reason,
      lane,
      source,
      tries,
      freshness_s: freshness,
      fields: ended.problems && problemFields(ended.problems),
    },
    "change.settled",
  );
}

/**
 * @param source bounded name of the event's source.
 * @param since of a redriven event, from when its freshness counts, ms; default: the event's own time.
 */
export function reportAccepted(
  parts: OutcomeParts,
  record: Accepted,
  event: CrmEvent | undefined,
  source: string,
  since?: number,
): void {
  const { coalesced, crmCode, lane, problems, reason, result } = record;
  const common = { crmCode, lane, source };
  const isRedriven = since !== undefined;
  if (record.ignored !== undefined) reportIgnored(parts, record, event, source);
  reportPulled(parts, record, event);
  if (record.reused === true) parts.metrics.countReused(source);
  // An import may be older than what is known, and so may be what a person redrives.
  if (record.differs === true && lane === "live" && !isRedriven) parts.metrics.countOlder(source);
  if (coalesced) reportOutcome(parts, { ...common, outcome: "coalesced" });
  switch (result) {
    case "fetching":
    case "waiting":
      return;
    case "staged":
    case "held":
      parts.metrics.countPassed("intake");
      if (coalesced) return;
      parts.tracing.note(() => ({
        "crmsync.outcome": "staged",
        "crmsync.lane": lane,
        "crmsync.record": crmCode && hashOf(crmCode),
      }));
      return;
    case "unchanged":
    case "nothing_to_terminate": {
      parts.metrics.countPassed("intake");
      const time = event?.time === undefined ? parts.clock.now() : Date.parse(event.time);
      const happenedAt = since ?? time;
      reportOutcome(parts, { ...common, outcome: result, happenedAt });
      return;
    }
    case "superseded":
    case "duplicate":
    case "ignored":
    case "rejected":
      reportOutcome(parts, { ...common, outcome: result, reason, problems, isRedriven });
  }
}

/** Counts whether a pulled change was new, and whether a webhook should have told of it. */
function reportPulled(
  { clock, config, metrics }: OutcomeParts,
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
  { log, recordName }: OutcomeParts,
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

/** @param status of the reply, if there was one. */
export function reportRetry(
  parts: OutcomeParts,
  { change, crmCode, lane }: TakenState,
  reason: string,
  status: number | undefined,
): void {
  const { log, metrics, rarely, recordName, retryLog } = parts;
  const { failed: tries = 0 } = change.tries ?? {};
  metrics.countRetry(reason);
  const line = { record: recordName(crmCode), outcome: "unavailable", reason, lane, tries, status };
  if (reason === "forbidden") {
    rarely.warn(line, "change.forbidden");
  }
  log.debug(line, "change.retry_scheduled");
  retryLog.info(line, "change.retry_scheduled", reason);
}
