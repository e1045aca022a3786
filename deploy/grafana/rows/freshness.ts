/** How long live changes take to reach the service. */
import type { PanelSpec, RowSpec } from "../panel-spec.ts";
import { increase, quantile, shared } from "../promql.ts";

/** Live changes: 99 % of them within this time. */
const OBJECTIVE_S = 900;

export const freshnessPanel = (lane: "live" | "bulk", width: number): PanelSpec => ({
  kind: "lines",
  title: `Freshness, ${lane}`,
  description: `From the first unsynced event of a ${lane} record to its proof on the service. Changes that have not arrived are not included: see the oldest waiting change.`,
  runbook: lane === "live" ? "CrmsyncFreshnessFastBurn" : "CrmsyncChangeStuck",
  unit: "s",
  width,
  none: "no changes",
  queries: [0.5, 0.95, 0.99].map((q) => ({
    expr: quantile(q, "change_freshness_seconds", `, lane="${lane}"`, ""),
    legend: `p${q * 100}`,
  })),
  ...(lane === "live" && { objective: OBJECTIVE_S }),
});

export const oldestPanel = (lane: "live" | "bulk", width: number): PanelSpec => ({
  kind: "lines",
  title: `Oldest waiting change, ${lane}`,
  description: `Age of the oldest ${lane} change that is not on the service.`,
  runbook: "CrmsyncChangeStuck",
  unit: "s",
  width,
  none: "unknown",
  queries: [{ expr: shared("oldest_unsynced_age_seconds", `, lane="${lane}"`), legend: "age" }],
  ...(lane === "live" && { objective: OBJECTIVE_S }),
});

export const FRESHNESS: RowSpec = {
  title: "Freshness of live changes",
  height: 8,
  panels: [
    {
      kind: "heatmap",
      title: "Freshness of live changes",
      description:
        "How many changes took how long (event to proof); upper end of each bucket in seconds.",
      runbook: "CrmsyncFreshnessSlowBurn",
      unit: "s",
      width: 8,
      queries: [
        {
          expr: `sum by (le) (${increase("change_freshness_seconds_bucket", ', lane="live"')})`,
          legend: "{{le}}",
        },
      ],
    },
    freshnessPanel("live", 8),
    oldestPanel("live", 8),
  ],
};
