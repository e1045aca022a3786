/** How long changes take to reach the service. */
import type { PanelSpec, RowSpec } from "../panel-spec.ts";
import { increase, quantile, shared } from "../promql.ts";

const freshnessPanel = (lane: "live" | "bulk", width: number): PanelSpec => ({
  kind: "lines",
  title: `Freshness, ${lane}`,
  description: `From the first unsynced event of a ${lane} record to its proof on the service. Changes that have not arrived are not included: see the oldest waiting change.`,
  runbook: lane === "live" ? "CrmsyncFreshnessFastBurn" : "CrmsyncChangeStuck",
  unit: "s",
  width,
  queries: [0.5, 0.95, 0.99].map((q) => ({
    expr: quantile(q, "change_freshness_seconds", `, lane="${lane}"`, ""),
    legend: `p${q * 100}`,
  })),
});

export const FRESHNESS: RowSpec = {
  title: "Freshness",
  height: 8,
  panels: [
    {
      kind: "heatmap",
      title: "Freshness of live changes",
      description:
        "How many changes took how long (event to proof); upper end of each bucket in seconds.",
      runbook: "CrmsyncFreshnessSlowBurn",
      unit: "s",
      width: 12,
      queries: [
        {
          expr: `sum by (le) (${increase("change_freshness_seconds_bucket", ', lane="live"')})`,
          legend: "{{le}}",
        },
      ],
    },
    {
      kind: "lines",
      title: "Oldest waiting change",
      description: "Age of the oldest change that is not on the service, by lane.",
      runbook: "CrmsyncChangeStuck",
      unit: "s",
      width: 12,
      queries: [{ expr: shared("oldest_unsynced_age_seconds", "", "lane"), legend: "{{lane}}" }],
    },
    freshnessPanel("live", 12),
    freshnessPanel("bulk", 12),
  ],
};
