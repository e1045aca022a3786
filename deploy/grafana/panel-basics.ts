/** What panels of all kinds have: texts, queries, thresholds and the link to the runbook. */
import type * as common from "@grafana/grafana-foundation-sdk/common";
import * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import type { PanelSpec, Query } from "./panel-spec.ts";

export const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

/** Legend of the line at the objective. */
export const OBJECTIVE = "objective";

/**
 * A text fragment finds the section in any rendering of the runbook. The name alone would find the
 * table at its beginning: the heading is followed by "Means", in Markdown by "**Means".
 */
export const inRunbook = (section: string): string =>
  `\${runbook}#:~:text=${section},-%2A%2AMeans&text=${section},-Means&text=${section}`;

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
}

export function basics<B extends Builder>(
  builder: B,
  spec: PanelSpec,
  format = prometheus.PromQueryFormat.TimeSeries,
): B {
  const link = new dashboard.DashboardLinkBuilder(`Runbook: ${spec.runbook}`)
    .type(dashboard.DashboardLinkType.Link)
    .url(inRunbook(encodeURIComponent(spec.runbook)))
    .targetBlank(true);
  builder
    .title(spec.title)
    .description(spec.description)
    .datasource(DATASOURCE)
    .unit(spec.unit)
    .targets(queriesOf(spec).map((query, index) => targetOf(spec, query, index, format)))
    .links([link]);
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

const queriesOf = ({ queries, objective }: PanelSpec): readonly Query[] =>
  objective === undefined
    ? queries
    : [...queries, { expr: `vector(${objective})`, legend: OBJECTIVE }];

function targetOf(
  spec: PanelSpec,
  { expr, legend }: Query,
  index: number,
  format: prometheus.PromQueryFormat,
): prometheus.DataqueryBuilder {
  const target = new prometheus.DataqueryBuilder()
    .refId(String.fromCharCode(65 + index))
    .datasource(DATASOURCE)
    .expr(withoutZeros(spec, expr))
    .format(format)
    .legendFormat(legend);
  // Over a range, a stat would show the last known value long after it became unknown.
  return spec.kind === "stat" || spec.kind === "alerts" ? target.instant() : target.range();
}

/** A legend full of series that stay at 0 hides the ones that matter. */
function withoutZeros({ kind, hidesZeros }: PanelSpec, expr: string): string {
  if (kind === "bars") return `${expr} > 0`;
  if (hidesZeros !== true) return expr;
  // A line may touch 0: it is left out only if it is 0 throughout.
  return `${expr} and max_over_time((${expr})[$__range:$__interval] @ end()) > 0`;
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
