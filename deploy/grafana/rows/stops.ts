/** What stops changes, and when. */
import type { RowSpec } from "../panel-spec.ts";
import { JOB, OWN, shared } from "../promql.ts";

export const STOPS: RowSpec = {
  title: "What stops changes",
  height: 7,
  panels: [
    {
      kind: "states",
      title: "Stops",
      description:
        "Red while this reason stops all changes, or slows them; each has a section in the runbook. Empty while the state is unknown.",
      runbook: "Start here",
      unit: "short",
      width: 24,
      queries: [
        { expr: shared("sending_stopped", "", "reason"), legend: "{{reason}}" },
        { expr: `${shared("quota_remaining")} < bool 1`, legend: "quota_spent" },
        { expr: shared("quota_pacing", ', mode="fallback"'), legend: "slowed_by_429" },
        { expr: `(max(up{${JOB}}) or vector(0)) < bool 1`, legend: "no_process_answers" },
        { expr: `1 - min(crmsync_redis_up{${OWN}})`, legend: "redis_away" },
        { expr: `${shared("processes", ', role="sync"')} < bool 1`, legend: "no_sync_process" },
        {
          expr: `${shared("processes", ', role="intake"')} < bool 1`,
          legend: "no_intake_process",
        },
        {
          expr: `${shared("queue_jobs", ', queue="fetch", state="delayed"')} > bool 0`,
          legend: "records_not_fetched",
        },
      ],
      values: { "0": ["", "#2a3b2f"], "1": ["stopped", "red"] },
      thresholds: [
        [null, "green"],
        [1, "red"],
      ],
    },
  ],
};
