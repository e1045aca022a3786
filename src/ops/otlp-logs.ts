/** The log as OTLP: each line that was written, and nothing that it does not have. */
import { ROOT_CONTEXT, SeverityNumber, trace, TraceFlags, type Context } from "@opentelemetry/api";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { hashOf } from "./log-names.ts";
import { flushed, reportOutages, withHeaders, type ExportOptions } from "./otlp-export.ts";

interface LogsOptions extends ExportOptions {
  /** The lines name records by their crmCode (LOG_CRM_CODES), which must not leave the machine. */
  readonly hashesRecords: boolean;
}

/** A line of the log; the other fields are those of its event. */
interface Line {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly event: string;
  readonly trace_id?: string;
  readonly span_id?: string;
  readonly record?: string;
}

/** Lines about an export of the log: each would bring about the next one. */
const ABOUT_ITSELF = /^(?:logs|telemetry)\./;

export async function openLogs(options: LogsOptions) {
  const { hashesRecords, log, resource, version } = options;
  const { OTLPLogExporter } =
    options.protocol === "http/json"
      ? await import("@opentelemetry/exporter-logs-otlp-http")
      : await import("@opentelemetry/exporter-logs-otlp-proto");
  const exporter = new OTLPLogExporter(withHeaders(options));
  reportOutages(exporter, "logs", log);
  const processors = [new BatchLogRecordProcessor({ exporter })];
  const provider = new LoggerProvider({ resource, processors });
  const logger = provider.getLogger("crmsync", version);
  return {
    /** @param line as it was written. Beyond 2,048 that wait, lines are dropped. */
    write: (line: string): void => {
      const { level, time, msg, trace_id, span_id, ...fields } = JSON.parse(line) as Line;
      if (ABOUT_ITSELF.test(fields.event)) return;
      const { record } = fields;
      logger.emit({
        timestamp: new Date(time),
        severityNumber: SeverityNumber[level.toUpperCase() as keyof typeof SeverityNumber],
        severityText: level,
        body: msg,
        attributes:
          hashesRecords && record !== undefined ? { ...fields, record: hashOf(record) } : fields,
        context: contextOf(trace_id, span_id),
      });
    },
    close: () => flushed(provider.shutdown()),
  };
}

/** A line has the ids only of a span that is recorded. */
function contextOf(traceId: string | undefined, spanId: string | undefined): Context {
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED });
}
