/** Writes what is generated from code: the references of metrics and log events, and the dashboard. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildDashboard } from "./grafana/dashboard.ts";
import { logEventsReference } from "./log-events-reference.ts";
import { metricsReference } from "./metrics-reference.ts";

const root = join(import.meta.dirname, "..");
writeFileSync(join(root, "docs/metrics.md"), await metricsReference());
writeFileSync(join(root, "docs/log-events.md"), logEventsReference());
writeFileSync(
  join(root, "deploy/grafana/dashboards/crmsync.json"),
  `${JSON.stringify(buildDashboard(), undefined, 2)}\n`,
);
