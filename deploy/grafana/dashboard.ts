/** The panels as a classic Grafana dashboard: file provisioning of every version accepts it. */
import * as common from "@grafana/grafana-foundation-sdk/common";
import * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import * as heatmap from "@grafana/grafana-foundation-sdk/heatmap";
import * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import * as stat from "@grafana/grafana-foundation-sdk/stat";
import * as statetimeline from "@grafana/grafana-foundation-sdk/statetimeline";
import * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import type { AnnotationSpec, PanelSpec, Query } from "./panel-spec.ts";
import { ANNOTATIONS, ROWS } from "./panels.ts";

const SCHEMA_VERSION = 42;
const COLUMNS = 24;

const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

type Panel = ReturnType<stat.PanelBuilder["build"]>;

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

/** The SDK sets neither ids nor places: rows are filled from left to right and wrap. */
function panelsInPlace(): unknown[] {
  const panels: unknown[] = [];
  let y = 0;
  let id = 0;
  for (const row of ROWS) {
    const place = { h: 1, w: COLUMNS, x: 0, y };
    const title = new dashboard.RowBuilder(row.title)
      .id((id += 1))
      .gridPos(place)
      .build();
    panels.push(title);
    y += 1;
    let x = 0;
    for (const spec of row.panels) {
      if (x + spec.width > COLUMNS) {
        x = 0;
        y += row.height;
      }
      const gridPos = { h: row.height, w: spec.width, x, y };
      panels.push({ ...panelOf(spec), id: (id += 1), gridPos });
      x += spec.width;
    }
    y += row.height;
  }
  return panels;
}

function panelOf(spec: PanelSpec): Panel {
  switch (spec.kind) {
    case "stat":
      return basics(new stat.PanelBuilder(), spec)
        .graphMode(common.BigValueGraphMode.None)
        .colorMode(common.BigValueColorMode.Background)
        .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]))
        .build();
    case "lines":
      return series(spec).drawStyle(common.GraphDrawStyle.Line).lineWidth(2).build();
    case "bars":
      return series(spec)
        .drawStyle(common.GraphDrawStyle.Bars)
        .fillOpacity(80)
        .lineWidth(0)
        .stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal))
        .build();
    case "states":
      return basics(new statetimeline.PanelBuilder(), spec)
        .showValue(common.VisibilityMode.Never)
        .mergeValues(true)
        .rowHeight(0.8)
        .lineWidth(0)
        .fillOpacity(85)
        .legend(new common.VizLegendOptionsBuilder().showLegend(false))
        .build();
    case "heatmap":
      return basics(new heatmap.PanelBuilder(), spec, prometheus.PromQueryFormat.Heatmap)
        .calculate(false)
        .yAxis(new heatmap.YAxisConfigBuilder().unit(spec.unit))
        .color(new heatmap.HeatmapColorOptionsBuilder().scheme("Oranges").steps(32))
        .build();
  }
}

function series(spec: PanelSpec): timeseries.PanelBuilder {
  return basics(new timeseries.PanelBuilder(), spec)
    .min(0)
    .showPoints(common.VisibilityMode.Never)
    .legend(
      new common.VizLegendOptionsBuilder()
        .displayMode(common.LegendDisplayMode.List)
        .placement(common.LegendPlacement.Bottom)
        .showLegend(true),
    )
    .tooltip(
      new common.VizTooltipOptionsBuilder()
        .mode(common.TooltipDisplayMode.Multi)
        .sort(common.SortOrder.Descending),
    );
}

/** The methods that the builders of all kinds of panels share. */
interface Builder {
  title(title: string): this;
  description(description: string): this;
  datasource(datasource: common.DataSourceRef): this;
  unit(unit: string): this;
  targets(targets: prometheus.DataqueryBuilder[]): this;
  links(links: dashboard.DashboardLinkBuilder[]): this;
  thresholds(thresholds: dashboard.ThresholdsConfigBuilder): this;
  colorScheme(color: dashboard.FieldColorBuilder): this;
  mappings(mappings: dashboard.ValueMapping[]): this;
  noValue(noValue: string): this;
  overrideByName(name: string, properties: dashboard.DynamicConfigValue[]): this;
}

function basics<B extends Builder>(
  builder: B,
  spec: PanelSpec,
  format = prometheus.PromQueryFormat.TimeSeries,
): B {
  const link = new dashboard.DashboardLinkBuilder(`Runbook: ${spec.runbook}`)
    .type(dashboard.DashboardLinkType.Link)
    // A text fragment finds the heading in any rendering of the runbook.
    .url(`\${runbook}#:~:text=${encodeURIComponent(spec.runbook)}`)
    .targetBlank(true);
  builder
    .title(spec.title)
    .description(spec.description)
    .datasource(DATASOURCE)
    .unit(spec.unit)
    .targets(spec.queries.map((_, index) => targetOf(spec, index, format)))
    .links([link]);
  for (const { legend, color } of spec.queries) {
    if (color === undefined) continue;
    builder.overrideByName(legend, [{ id: "color", value: { mode: "fixed", fixedColor: color } }]);
  }
  if (spec.none !== undefined) builder.noValue(spec.none);
  if (spec.values !== undefined) builder.mappings([mappingOf(spec.values)]);
  if (spec.thresholds !== undefined) {
    builder.thresholds(
      new dashboard.ThresholdsConfigBuilder()
        .mode(dashboard.ThresholdsMode.Absolute)
        .steps(spec.thresholds.map(([value, color]) => ({ value, color }))),
    );
    builder.colorScheme(
      new dashboard.FieldColorBuilder().mode(dashboard.FieldColorModeId.Thresholds),
    );
  }
  return builder;
}

function targetOf(spec: PanelSpec, index: number, format: prometheus.PromQueryFormat) {
  const { expr, legend } = spec.queries[index] as Query;
  const target = new prometheus.DataqueryBuilder()
    .refId(String.fromCharCode(65 + index))
    .datasource(DATASOURCE)
    .expr(expr)
    .format(format)
    .legendFormat(legend);
  // Over a range, a stat would show the last known value long after it became unknown.
  return spec.kind === "stat" ? target.instant() : target.range();
}

function mappingOf(values: NonNullable<PanelSpec["values"]>): dashboard.ValueMapping {
  const options = Object.entries(values).map(([value, [text, color]], index) => {
    return [value, { text, color, index }] as const;
  });
  return {
    type: dashboard.MappingType.ValueToText,
    options: Object.fromEntries(options),
  };
}
