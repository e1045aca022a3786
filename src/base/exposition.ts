/** The two formats in which Prometheus reads metrics. Only OpenMetrics can carry exemplars. */
import { Registry, type Metric, type OpenMetricsContentType } from "prom-client";

export type MetricsFormat = "text" | "openmetrics";

export const CONTENT_TYPES = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
} as const;

/** The format that an Accept header prefers; text unless it asks for OpenMetrics. */
export function formatFor(accept: string | undefined): MetricsFormat {
  const weights = new Map((accept ?? "").split(",").map(weightOf));
  const weight = weights.get("application/openmetrics-text") ?? 0;
  return weight > 0 && weight >= (weights.get("text/plain") ?? 0) ? "openmetrics" : "text";
}

/** A range of media types and its weight: `text/plain;version=0.0.4;q=0.5`. */
function weightOf(range: string): readonly [string, number] {
  const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith("q="));
  return [name, weight === undefined ? 1 : Number(weight.slice(2))];
}

export async function expose(registry: Registry, format: MetricsFormat): Promise<string> {
  if (format === "text") return registry.metrics();
  const open = new Registry<OpenMetricsContentType>();
  open.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const metric of registry.getMetricsAsArray()) {
    // Writing OpenMetrics shortens the names of counters in place: here only the names of these views.
    const name = { value: metric.name, writable: true };
    open.registerMetric(Object.create(metric, { name }) as Metric);
  }
  return open.metrics();
}
