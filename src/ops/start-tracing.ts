import type { Tracing, TracingOptions } from "./tracing.ts";

/** Loads OpenTelemetry and starts to trace; called only when a collector is configured. */
export async function startTracing(options: TracingOptions): Promise<Tracing> {
  return (await import("./tracing-otel.ts")).openTracing(options);
}
