/** Metrics as OTLP: the series of GET /metrics, converted. prom-client stays the only one that counts. */
import { ValueType, type HrTime } from "@opentelemetry/api";
import { millisToHrTime } from "@opentelemetry/core";
import {
  AggregationTemporality,
  DataPointType,
  MeterProvider,
  PeriodicExportingMetricReader,
  type Histogram,
  type MetricData,
} from "@opentelemetry/sdk-metrics";
import type { Series } from "./exposition.ts";
import type { RareLog } from "./log.ts";
import { flushed, reportOutages, withHeaders, type ExportOptions } from "./otlp-export.ts";
import type { Part } from "./shutdown.ts";

export type ReadSeries = () => Promise<readonly Series[]>;

interface MetricsOptions extends ExportOptions {
  readonly everyMs: number;
  readonly rarely: RareLog;
}

/** When each point was counted. */
interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/** @returns begins the export; closed, it exports once more. */
export async function openMetrics(options: MetricsOptions): Promise<(read: ReadSeries) => Part> {
  const { everyMs, log, rarely, resource, version } = options;
  const { OTLPMetricExporter } =
    options.protocol === "http/json"
      ? await import("@opentelemetry/exporter-metrics-otlp-http")
      : await import("@opentelemetry/exporter-metrics-otlp-proto");
  const exporter = new OTLPMetricExporter(withHeaders(options));
  reportOutages(exporter, "metrics", log);
  const startTime = millisToHrTime(performance.timeOrigin);

  const collector = (read: ReadSeries) => async () => {
    const series = await read().catch((error: unknown) => {
      rarely.error({ err: error }, "metrics.unreadable");
      return [];
    });
    const times = { startTime, endTime: millisToHrTime(Date.now()) };
    const metrics = series.map((one) => metricOf(one, times));
    const known = metrics.filter(({ dataPoints }) => dataPoints.length > 0);
    const scopeMetrics =
      known.length > 0 ? [{ scope: { name: "crmsync", version }, metrics: known }] : [];
    return { resourceMetrics: { resource, scopeMetrics }, errors: [] };
  };

  return (read) => {
    const reader = new PeriodicExportingMetricReader({
      exporter,
      exportIntervalMillis: everyMs,
      metricProducers: [{ collect: collector(read) }],
    });
    const provider = new MeterProvider({ resource, readers: [reader] });
    return { close: () => flushed(provider.shutdown()) };
  };
}

function metricOf(series: Series, times: Times): MetricData {
  const { name, help: description, type, values } = series;
  const shared = {
    descriptor: { name, description, unit: unitOf(name), valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (type === "histogram") {
    const dataPoints = histogramsOf(series).map((point) => ({ ...times, ...point }));
    return { ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  // JSON has no NaN.
  const dataPoints = values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ labels, value }) => ({ ...times, attributes: textsOf(labels), value }));
  return type === "counter"
    ? { ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...shared, dataPointType: DataPointType.GAUGE, dataPoints };
}

/** Without a unit, Prometheus keeps a name as it is: of "1" it would make a suffix. */
function unitOf(name: string): string {
  if (/_seconds(?:_total)?$/.test(name)) return "s";
  return name.endsWith("_bytes") ? "By" : "";
}

/** In Prometheus every label is a text. */
const textsOf = (labels: Series["values"][number]["labels"]): Record<string, string> =>
  Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));

/** Prometheus counts in each bucket those of the smaller ones, too; OTLP does not. */
function histogramsOf({ name, values }: Series) {
  const points = new Map<string, { attributes: Record<string, string>; value: Histogram }>();
  for (const { labels, metricName, value } of values) {
    const { le, ...attributes } = textsOf(labels);
    const key = JSON.stringify(attributes);
    const point = points.get(key) ?? { attributes, value: emptyHistogram() };
    points.set(key, point);
    const { boundaries, counts } = point.value.buckets;
    if (le !== undefined) {
      if (le !== "+Inf") boundaries.push(Number(le));
      counts.push(value - counts.reduce((sum, count) => sum + count, 0));
    } else if (metricName === `${name}_sum`) point.value.sum = value;
    else point.value.count = value;
  }
  return [...points.values()];
}

const emptyHistogram = (): Histogram => ({
  buckets: { boundaries: [], counts: [] },
  sum: 0,
  count: 0,
});
