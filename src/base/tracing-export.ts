/** What leaves by OTLP: spans without personal data; what the log says when the collector does not take them. */
import { setTimeout as sleep } from "node:timers/promises";
import { diag, DiagLogLevel, SpanStatusCode } from "@opentelemetry/api";
import { ExportResultCode, parseKeyPairsIntoRecord, type ExportResult } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace";
import { createRareLog, type Logger } from "./log.ts";
import { printable } from "./printable.ts";

/** Longest wait for the last export: a silent collector must not delay the shutdown, ms. */
const FLUSH_MS = 1000;

/** The SDK's own timeout only ends a silence; an answer may go on without an end, ms. */
const EXPORT_MS = 30_000;

/** The SDK's warnings of one kind are logged at most once in this time, ms. */
const WARN_EVERY_MS = 600_000;

/** Of the text of a warning, which may quote the collector, characters. */
const WARNING_LENGTH = 300;

/** Names the service and the process. Host and command line are left out. */
export function resourceOf(version: string): Resource {
  const own = { "service.name": "crmsync", "service.version": version };
  const detectors = [
    serviceInstanceIdDetector,
    resourceAttributesEnvDetector,
    serviceNameEnvDetector,
  ];
  return defaultResource().merge(resourceFromAttributes(own)).merge(detectResources({ detectors }));
}

/**
 * The SDK itself reads the address, the timeout and all other variables (OTEL_…).
 * @param headers of every export, as `name=value,…`. Read each time: a file may change.
 */
export function openExporter(headers: (() => string) | undefined, log: Logger): OTLPTraceExporter {
  logWarnings(log);
  const exporter = new OTLPTraceExporter({
    headers: async () => parseKeyPairsIntoRecord(headers?.()),
  });
  reportOutages(exporter, log);
  return exporter;
}

/** Waits for the last export, but not long. */
export async function flushed(shutdown: Promise<void>): Promise<void> {
  await Promise.race([shutdown.catch(() => {}), sleep(FLUSH_MS)]);
}

interface Exporter<T> {
  export(items: T, done: (result: ExportResult) => void): void;
}

/** Logs once when exports begin to fail, and once when they succeed again. */
export function reportOutages<T>(exporter: Exporter<T>, log: Logger): void {
  const send = exporter.export.bind(exporter);
  let failing = false;
  exporter.export = (items, done) => {
    let isDone = false;
    const end = (result: ExportResult): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      const failed = result.code !== ExportResultCode.SUCCESS;
      if (failed && !failing) log.warn({ why: whyOf(result.error) }, "tracing.unavailable");
      else if (failing && !failed) log.info({}, "tracing.recovered");
      failing = failed;
      done(result);
    };
    const timer = setTimeout(() => end({ code: ExportResultCode.FAILED }), EXPORT_MS).unref();
    send(items, end);
  };
}

/** Only a code: the text of an error may quote what was sent, or an address with a password. */
function whyOf(error: Error | undefined): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  if (typeof code === "number") return `HTTP ${code}`;
  // Only a status that asks to try again later gives this error without a code.
  if (code === undefined && name === "OTLPExporterError") return "HTTP 429, 502, 503 or 504";
  return typeof code === "string" ? code : "no usable response";
}

/**
 * Logs what the SDK warns of: spans that the collector rejects or that did not fit into the queue, an
 * answer that is not OTLP, a wrong variable. Its errors are failed exports, which reportOutages logs.
 */
function logWarnings(log: Logger): void {
  const rarely = createRareLog(log, WARN_EVERY_MS);
  const ignore = (): void => {};
  const warn = (...all: unknown[]): void => {
    const texts = all.filter((one) => typeof one === "string");
    const why = printable(texts.join(" ").slice(0, WARNING_LENGTH));
    rarely.warn({ why }, "tracing.warning", why.split(" ", 1).join());
  };
  const logger = { warn, error: ignore, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}

/** Attributes that are exported. None can hold the content of a record, event, address or token. */
const ATTRIBUTES: ReadonlySet<string> = new Set(
  (
    "bullmq.queue.name bullmq.queue.operation bullmq.job.bulk.count bullmq.job.attempts.made " +
    "crmsync.outcome crmsync.reason crmsync.lane crmsync.record crmsync.tries error.type " +
    "http.request.method http.response.status_code http.route server.address server.port " +
    "url.template"
  ).split(" "),
);

/**
 * BullMQ's operations on the way of a job. Its other operations run every few seconds, and each
 * would be a trace.
 */
const OPERATIONS: ReadonlySet<unknown> = new Set([
  undefined,
  ..."add addBulk process complete fail delay retry".split(" "),
]);

/** Exports only allowed attributes: no texts of errors, no job ids, no names that senders chose. */
export class ScrubbingProcessor extends BatchSpanProcessor {
  override onEnd(span: ReadableSpan): void {
    if (OPERATIONS.has(span.attributes["bullmq.queue.operation"])) super.onEnd(scrubbed(span));
  }
}

function scrubbed(span: ReadableSpan): ReadableSpan {
  const attributes = Object.fromEntries(
    Object.entries(span.attributes).filter(([name]) => ATTRIBUTES.has(name)),
  );
  return Object.create(span, {
    attributes: { value: attributes },
    status: { value: { code: span.status.code, ...describe(span) } },
    // A span's event is an exception with its text, or the result of a job.
    events: { value: [] },
    links: { value: [] },
  }) as ReadableSpan;
}

/** The description of a failed span: a reason of a closed set, never the text of an error. */
function describe({ attributes, status }: ReadableSpan): { message?: string } {
  const reason = attributes["crmsync.reason"];
  return status.code === SpanStatusCode.ERROR && typeof reason === "string"
    ? { message: reason }
    : {};
}
