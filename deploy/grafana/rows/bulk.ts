/** Imports and comparisons: work that takes what live changes leave. */
import type { RowSpec } from "../panel-spec.ts";
import { shared } from "../promql.ts";

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
      width: 8,
      none: "unknown",
      queries: [
        { expr: shared("unsynced_records", ', lane="bulk"'), legend: "waiting" },
        { expr: shared("bulk_pending"), legend: "all" },
      ],
    },
    {
      kind: "lines",
      title: "Drift",
      description:
        "Relations that differed from the CRM at the last comparison and were not repaired by its plan.",
      runbook: "CrmsyncDrift",
      unit: "short",
      width: 8,
      hidesZeros: true,
      none: "no difference, or unknown",
      queries: [{ expr: shared("drift_relations", "", "kind"), legend: "{{kind}}" }],
    },
    {
      kind: "lines",
      title: "Comparison: duration, next",
      description:
        "How long the last comparison of the CRM with the service took, without carrying out; and the time until the next scheduled one (RECONCILE_CRON), below 0 while it is due.",
      runbook: "CrmsyncReconcileOverdue",
      unit: "s",
      width: 8,
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
      kind: "states",
      title: "Pause of bulk",
      description:
        "While an operator has paused the lane bulk, its changes wait; live changes go on.",
      runbook: "CrmsyncBulkPaused",
      unit: "short",
      width: 6,
      queries: [{ expr: shared("bulk_paused"), legend: "paused" }],
      values: { "0": ["", "#2a3b2f"], "1": ["paused", "yellow"] },
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
  ],
};
