/** Imports, and the listing of the service: work that takes what live changes leave. */
import type { RowSpec } from "../panel-spec.ts";
import { OWN, shared } from "../promql.ts";
import { freshnessPanel, oldestPanel } from "./freshness.ts";

export const BULK: RowSpec = {
  title: "Bulk and reconcile",
  height: 7,
  panels: [
    {
      kind: "lines",
      title: "Bulk backlog",
      description:
        "Changes of the lane bulk that are not on the service: those that wait, and all, with those that a plan of crmsync reconcile has still to feed.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "short",
      width: 6,
      none: "unknown",
      queries: [
        { expr: shared("unsynced_records", ', lane="bulk"'), legend: "waiting" },
        { expr: shared("bulk_pending"), legend: "all" },
      ],
    },
    {
      kind: "lines",
      title: "Time until the backlog is drained",
      description:
        "At the quota's rate, for all that waits now: bulk changes are the last to be sent. Unknown while sending is stopped until somebody acts.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "s",
      width: 6,
      none: "unknown",
      queries: [
        {
          expr: `clamp_min(${shared("backlog_drained_timestamp_seconds")} - time(), 0)`,
          legend: "time left",
        },
      ],
    },
    oldestPanel("bulk", 6),
    freshnessPanel("bulk", 6),
    {
      kind: "lines",
      title: "Drift",
      description:
        "Relations that differed from the CRM at the last comparison and were not repaired by its plan.",
      runbook: "CrmsyncDrift",
      unit: "short",
      width: 12,
      hidesZeros: true,
      none: "no difference, or unknown",
      queries: [{ expr: shared("drift_relations", "", "kind"), legend: "{{kind}}" }],
    },
    {
      kind: "lines",
      title: "Since the last comparison",
      description: "Time since `crmsync reconcile` has compared the CRM with the service.",
      runbook: "CrmsyncChangesLost",
      unit: "s",
      width: 12,
      none: "never compared",
      queries: [
        {
          expr: `time() - ${shared("reconcile_last_run_timestamp_seconds")}`,
          legend: "ago",
        },
      ],
    },
    {
      kind: "lines",
      title: "Exports in the folder",
      description:
        "Files in RECONCILE_DIR that wait for their comparison, and those in its folder `failed`, which wait for a person.",
      runbook: "CrmsyncReconcileFailed",
      unit: "short",
      width: 6,
      none: "no folder",
      queries: [{ expr: shared("reconcile_folder_files", "", "state"), legend: "{{state}}" }],
      colors: { failed: "red", waiting: "blue" },
    },
    {
      kind: "states",
      title: "The next export is blocked",
      description:
        "RECONCILE_DIR cannot be used, or its next file waits for something that failed; crmsync status says what.",
      runbook: "CrmsyncReconcileBlocked",
      unit: "short",
      width: 6,
      queries: [{ expr: shared("reconcile_folder_blocked"), legend: "blocked" }],
      values: { "0": ["", "#2a3b2f"], "1": ["now", "yellow"] },
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
    {
      kind: "states",
      title: "Result of the last run by itself",
      description: "How the last reconciliation that a daemon began has ended.",
      runbook: "CrmsyncReconcileOverdue",
      unit: "short",
      width: 6,
      queries: [
        {
          expr: shared("reconcile_last_result", "", "source, result"),
          legend: "{{source}} {{result}}",
        },
      ],
      values: { "0": ["", "#2a3b2f"], "1": ["last", "blue"] },
      thresholds: [
        [null, "green"],
        [1, "blue"],
      ],
    },
    {
      kind: "lines",
      title: "Comparison: duration, next",
      description:
        "How long the last comparison of the CRM with the service took, without carrying out; and the time until the next scheduled one (RECONCILE_CRON), below 0 while it is due.",
      runbook: "CrmsyncReconcileOverdue",
      unit: "s",
      width: 6,
      none: "never compared",
      queries: [
        { expr: shared("reconcile_last_duration_seconds"), legend: "took" },
        {
          expr: `${shared("reconcile_next_run_timestamp_seconds")} - time()`,
          legend: "until the next",
        },
      ],
    },
    {
      kind: "lines",
      title: "Listing of the service",
      description:
        "Requests that list relations, by reply, since the processes started: one per 5000 relations, to warm the ledger.",
      runbook: "CrmsyncWarmingUp",
      unit: "short",
      width: 12,
      hidesZeros: true,
      none: "none",
      queries: [
        {
          expr: `sum by (code) (crmsync_service_requests_total{${OWN}, operation="list"})`,
          legend: "{{code}}",
        },
      ],
      colors: { "200": "green" },
    },
    {
      kind: "states",
      title: "Pause of bulk",
      description:
        "While an operator has paused the lane bulk, its changes wait; live changes go on.",
      runbook: "CrmsyncBulkPaused",
      unit: "short",
      width: 12,
      queries: [{ expr: shared("bulk_paused"), legend: "paused" }],
      values: { "0": ["", "#2a3b2f"], "1": ["paused", "yellow"] },
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
    {
      kind: "states",
      title: "Warm-up",
      description: "While the ledger is being warmed, changes wait.",
      runbook: "CrmsyncWarmingUp",
      unit: "short",
      width: 12,
      queries: [
        {
          expr: shared("sending_stopped", ', reason="warming_up"'),
          legend: "warming up",
        },
      ],
      values: { "0": ["", "#2a3b2f"], "1": ["now", "blue"] },
      thresholds: [
        [null, "green"],
        [1, "blue"],
      ],
    },
  ],
};
