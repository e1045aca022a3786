/** One panel as Grafana stores it. */
import * as common from "@grafana/grafana-foundation-sdk/common";
import * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import * as stat from "@grafana/grafana-foundation-sdk/stat";
import * as statetimeline from "@grafana/grafana-foundation-sdk/statetimeline";
import * as table from "@grafana/grafana-foundation-sdk/table";
import * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import { basics, inRunbook, OBJECTIVE } from "./panel-basics.ts";
import type { PanelSpec } from "./panel-spec.ts";

/** Four scrapes: with a smaller step, `$__rate_interval` counts one increment in several bars. */
const BAR_INTERVAL = "1m";

type Panel = ReturnType<stat.PanelBuilder["build"]>;

export function panelOf(spec: PanelSpec): Panel {
  switch (spec.kind) {
    case "stat":
      return statOf(spec).build();
    case "lines":
      return lines(spec).build();
    case "bars":
      return series(spec)
        .interval(BAR_INTERVAL)
        .min(0)
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
    case "alerts":
      return alerts(spec).build();
  }
}

function statOf(spec: PanelSpec): stat.PanelBuilder {
  const panel = basics(new stat.PanelBuilder(), spec)
    .graphMode(common.BigValueGraphMode.None)
    .colorMode(common.BigValueColorMode.Background)
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]));
  if (spec.valueSize === undefined) return panel;
  return panel.text(new common.VizTextDisplayOptionsBuilder().valueSize(spec.valueSize));
}

/**
 * A logarithmic scale shows seconds and hours. Grafana fits it to the data alone, so the objective is
 * a series: a threshold far above the data would not be seen.
 */
function lines(spec: PanelSpec): timeseries.PanelBuilder {
  const panel = series(spec).drawStyle(common.GraphDrawStyle.Line).lineWidth(2);
  if (spec.objective === undefined) return panel.min(0);
  return panel
    .min(0.1)
    .scaleDistribution(
      new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(10),
    )
    .overrideByName(OBJECTIVE, [
      { id: "color", value: { mode: "fixed", fixedColor: "red" } },
      { id: "custom.lineStyle", value: { fill: "dash", dash: [10, 10] } },
      { id: "custom.lineWidth", value: 1 },
    ]);
}

function series(spec: PanelSpec): timeseries.PanelBuilder {
  const panel = basics(new timeseries.PanelBuilder(), spec)
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
  if (spec.shades !== undefined) {
    panel.colorScheme(
      new dashboard.FieldColorBuilder()
        .mode(dashboard.FieldColorModeId.Shades)
        .fixedColor(spec.shades),
    );
  }
  for (const [legend, fixedColor] of Object.entries(spec.colors ?? {})) {
    panel.overrideByName(legend, [{ id: "color", value: { mode: "fixed", fixedColor } }]);
  }
  return panel;
}

/** A table of alerts: severity and name first, then since when, with a link to the runbook. */
function alerts(spec: PanelSpec): table.PanelBuilder {
  const link = { title: "Runbook", url: inRunbook("${__value.text}"), targetBlank: true };
  const severities = {
    type: dashboard.MappingType.ValueToText,
    options: { critical: { color: "red", index: 0 }, warning: { color: "yellow", index: 1 } },
  };
  const background = { type: common.TableCellDisplayMode.ColorBackground };
  return basics(new table.PanelBuilder(), spec, prometheus.PromQueryFormat.Table)
    .transformations([
      {
        id: "organize",
        options: {
          excludeByName: { Time: true },
          indexByName: { severity: 0, alertname: 1, Value: 2, job: 3, instance: 4 },
          renameByName: { alertname: "alert", Value: "since", job: "tenant", instance: "process" },
        },
      },
    ])
    .sortBy([new common.TableSortByFieldStateBuilder().displayName("severity")])
    .overrideByName("severity", [
      { id: "mappings", value: [severities] },
      { id: "custom.cellOptions", value: background },
      { id: "custom.width", value: 110 },
    ])
    .overrideByName("alert", [{ id: "links", value: [link] }]);
}
