/** The panels as a classic Grafana dashboard: file provisioning of every version accepts it. */
import * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import { panelOf } from "./build-panel.ts";
import { DATASOURCE } from "./panel-basics.ts";
import type { AnnotationSpec } from "./panel-spec.ts";
import { ANNOTATIONS, ROWS } from "./panels.ts";

const SCHEMA_VERSION = 42;
const COLUMNS = 24;

export function buildDashboard(): Record<string, unknown> {
  const built = new dashboard.DashboardBuilder("crmsync")
    .uid("crmsync")
    .description("Health, waiting changes, what stops them and until when.")
    .tags(["crmsync"])
    .refresh("30s")
    .time({ from: "now-6h", to: "now" })
    .tooltip(dashboard.DashboardCursorSync.Crosshair)
    .variables([
      new dashboard.DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"),
      queryVariable("job", "Tenant", "label_values(crmsync_build_info, job)"),
      queryVariable(
        "instance",
        "Process",
        'label_values(crmsync_build_info{job=~"$job"}, instance)',
      )
        .multi(true)
        .includeAll(true)
        .allValue(".*"),
      new dashboard.TextBoxVariableBuilder("runbook")
        .label("Runbook at")
        .description("Address at which you serve docs/runbook.md.")
        .defaultValue("/public/runbook.txt"),
    ])
    .annotations(ANNOTATIONS.map(annotationOf))
    .build();
  return { ...built, schemaVersion: SCHEMA_VERSION, panels: panelsInPlace() };
}

function queryVariable(name: string, label: string, query: string) {
  return new dashboard.QueryVariableBuilder(name)
    .label(label)
    .datasource(DATASOURCE)
    .query({ query, refId: name })
    .definition(query)
    .refresh(dashboard.VariableRefresh.OnTimeRangeChanged)
    .sort(dashboard.VariableSort.AlphabeticalAsc);
}

function annotationOf({ name, expr, color, text }: AnnotationSpec) {
  return new dashboard.AnnotationQueryBuilder()
    .name(name)
    .datasource(DATASOURCE)
    .enable(true)
    .hide(false)
    .iconColor(color)
    .expr(expr)
    .step("60s")
    .titleFormat(name)
    .textFormat(text);
}

/**
 * The SDK sets neither ids nor places: rows are filled from left to right and wrap. A collapsed row
 * contains its panels, at the places that they take when it is opened.
 */
function panelsInPlace(): unknown[] {
  const panels: unknown[] = [];
  let y = 0;
  let id = 0;
  for (const row of ROWS) {
    const title = new dashboard.RowBuilder(row.title)
      .id((id += 1))
      .gridPos({ h: 1, w: COLUMNS, x: 0, y })
      .collapsed(row.collapsed === true)
      .build();
    y += 1;
    const inRow: unknown[] = [];
    let x = 0;
    let below = y;
    for (const spec of row.panels) {
      if (x + spec.width > COLUMNS) {
        x = 0;
        below += row.height;
      }
      const gridPos = { h: row.height, w: spec.width, x, y: below };
      inRow.push({ ...panelOf(spec), id: (id += 1), gridPos });
      x += spec.width;
    }
    if (row.collapsed === true) {
      panels.push({ ...title, panels: inRow });
    } else {
      panels.push(title, ...inRow);
      y = below + row.height;
    }
  }
  return panels;
}
