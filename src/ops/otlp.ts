/**
 * Traces, metrics and logs to a collector, by OTLP. Loaded only when one is configured: without it, a
 * daemon pays neither memory nor time for OpenTelemetry (docs/adr/0010-traces.md).
 */
import { createRareLog, type Logger } from "./log.ts";
import { logWarnings, resourceOf, type SignalOptions } from "./otlp-export.ts";
import { NO_TRACING, type TracingOptions } from "./tracing.ts";

/** A signal is undefined when it is switched off. */
export interface OtlpOptions {
  readonly traces: (SignalOptions & TracingOptions) | undefined;
  readonly metrics: (SignalOptions & { readonly everyMs: number }) | undefined;
  readonly logs: (SignalOptions & { readonly hashesRecords: boolean }) | undefined;
  readonly version: string;
  readonly log: Logger;
}

export type Otlp = Awaited<ReturnType<typeof openOtlp>>;

/** The SDK's warnings of one kind are logged at most once in this time, ms. */
const WARN_EVERY_MS = 600_000;

export async function openOtlp(options: OtlpOptions) {
  const { log, logs, metrics, traces, version } = options;
  const rarely = createRareLog(log, WARN_EVERY_MS);
  logWarnings(rarely);
  const shared = { resource: resourceOf(version), version, log, rarely };
  const tracing =
    traces && (await (await import("./tracing-otel.ts")).openTracing({ ...traces, ...shared }));
  const lines = logs && (await (await import("./otlp-logs.ts")).openLogs({ ...logs, ...shared }));
  return {
    tracing: tracing ?? NO_TRACING,
    /** Begins the export of metrics, which ends by itself: earlier than the rest, while Redis still answers. */
    exportMetrics:
      metrics && (await (await import("./otlp-metrics.ts")).openMetrics({ ...metrics, ...shared })),
    /** Exports a line of the log. */
    exportLine: lines?.write,
    async close(): Promise<void> {
      await Promise.all([tracing?.close(), lines?.close()]);
    },
  };
}
