/**
 * Writes what is generated: the references of commands, fields, metrics and log events, the figures, the
 * schema of mapping files, the dashboard, the rules of Prometheus as Kubernetes takes them, and the rules
 * of Redis' ACL.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildDashboard } from "./grafana/dashboard.ts";
import { casesJsonSchema } from "../src/whole/preview/mapping-cases.ts";
import { commandsReference } from "./commands-reference.ts";
import { fieldsReference } from "./fields-reference.ts";
import { figures, withComparison } from "./figures.ts";
import { logEventsReference } from "./log-events-reference.ts";
import { mappingJsonSchema } from "./mapping-schema.ts";
import { metricsReference } from "./metrics-reference.ts";
import { prometheusRule } from "./prometheus-rule.ts";
import { aclRules } from "./redis-acl.ts";

const root = join(import.meta.dirname, "..");
writeFileSync(join(root, "docs/metrics.md"), await metricsReference());
writeFileSync(join(root, "docs/log-events.md"), logEventsReference());
writeFileSync(join(root, "docs/fields.md"), fieldsReference());
writeFileSync(join(root, "docs/commands.md"), await commandsReference());
writeFileSync(join(root, "docs/figures.md"), figures());
const readme = join(root, "README.md");
writeFileSync(readme, withComparison(readFileSync(readme, "utf8")));
writeFileSync(
  join(root, "mappings/mapping.schema.json"),
  `${JSON.stringify(mappingJsonSchema(), undefined, 2)}\n`,
);
writeFileSync(
  join(root, "mappings/mapping-test.schema.json"),
  `${JSON.stringify(casesJsonSchema(), undefined, 2)}\n`,
);
writeFileSync(
  join(root, "deploy/grafana/dashboards/crmsync.json"),
  `${JSON.stringify(buildDashboard(), undefined, 2)}\n`,
);
writeFileSync(join(root, "deploy/kubernetes/monitoring/prometheus-rule.yaml"), prometheusRule());
writeFileSync(join(root, "deploy/redis/acl-rules.txt"), `${aclRules("{crmsync}")}\n`);
