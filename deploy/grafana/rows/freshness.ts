/** How long live changes take to reach the service. */
import type { RowSpec } from "../panel-spec.ts";
import { quantile, shared } from "../promql.ts";

/** Live changes: 99 % of them within this time. */
const OBJECTIVE_S = 900;

export const FRESHNESS: RowSpec = {
  title: "Freshness of live changes",
  height: 8,
  panels: [
    {
      kind: "lines",
      title: "Freshness, live",
      description:
        "From the first unsynced event of a live record to its proof on the service. Changes that have not arrived are not included: see the oldest waiting change.",
      runbook: "CrmsyncFreshnessFastBurn",
      unit: "s",
      width: 12,
      none: "no changes",
      queries: [0.5, 0.95, 0.99].map((q) => ({
        expr: quantile(q, "change_freshness_seconds", ', lane="live"', ""),
        legend: `p${q * 100}`,
      })),
      objective: OBJECTIVE_S,
    },
    {
      kind: "lines",
      title: "Oldest waiting change, live",
      description: "Age of the oldest live change that is not on the service.",
      runbook: "CrmsyncChangeStuck",
      unit: "s",
      width: 12,
      none: "unknown",
      queries: [{ expr: shared("oldest_unsynced_age_seconds", ', lane="live"'), legend: "age" }],
      objective: OBJECTIVE_S,
    },
  ],
};
