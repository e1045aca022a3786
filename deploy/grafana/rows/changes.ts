/** How changes end, and what waits in the queues. */
import type { RowSpec } from "../panel-spec.ts";
import { increase, shared } from "../promql.ts";

export const CHANGES: RowSpec = {
  title: "Changes and queues",
  height: 8,
  panels: [
    {
      kind: "bars",
      title: "How changes ended",
      description:
        "coalesced, unchanged and superseded changes cost no request; rejected ones are dead letters.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 8,
      queries: [{ expr: `sum by (outcome) (${increase("changes_total")})`, legend: "{{outcome}}" }],
    },
    {
      kind: "lines",
      title: "Waiting records",
      description: "Records with a change that is not on the service, by lane.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "short",
      width: 8,
      queries: [{ expr: shared("unsynced_records", "", "lane"), legend: "{{lane}}" }],
    },
    {
      kind: "lines",
      title: "Jobs in the queues",
      description:
        "crm-events is the inbox, sync holds pointer jobs. active is 0 to a few; delayed jobs wait for another try.",
      runbook: "CrmsyncRoleMissing",
      unit: "short",
      width: 8,
      queries: [{ expr: shared("queue_jobs", "", "queue, state"), legend: "{{queue}} {{state}}" }],
    },
    {
      kind: "bars",
      title: "New dead letters by reason",
      description: "crmsync dead list shows field, rule and remedy of each.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 12,
      queries: [{ expr: `sum by (reason) (${increase("rejected_total")})`, legend: "{{reason}}" }],
    },
    {
      kind: "bars",
      title: "Stalled jobs",
      description:
        "Jobs that were started again because their process was killed or hung during its work.",
      runbook: "CrmsyncJobsStalled",
      unit: "short",
      width: 12,
      queries: [{ expr: `sum(${increase("jobs_stalled_total")})`, legend: "jobs" }],
    },
  ],
};
