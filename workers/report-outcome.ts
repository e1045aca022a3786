/** Reports how a change ended: one counter, one span attribute, one log line. */
import type { Lane } from "../src/event/lane.ts";
import type { ChangeOutcome } from "../src/sync/outcomes.ts";
import { problemFields } from "../src/sync/problem-fields.ts";
import type { Problem } from "../src/event/problem.ts";
import { hashOf } from "../src/ops/log-names.ts";
import type { Runtime } from "./runtime.ts";

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

export function reportOutcome(runtime: Runtime, ended: EndedChange): void {
  const { metrics, log, tracing } = runtime;
  const { outcome, reason, lane, crmCode, source, tries, happenedAt } = ended;
  metrics.changes.inc({ outcome });
  if (outcome === "rejected" && ended.isRedriven !== true)
    metrics.countRejected(reason ?? "defect", ended.problems);
  if (outcome === "created" || outcome === "updated") {
    metrics.countPassed("sync");
    if (lane !== undefined) metrics.countSent(lane);
  }
  const freshness = happenedAt && Math.max(0, (runtime.clock.now() - happenedAt) / 1000);
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
      record: runtime.recordName(crmCode),
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
