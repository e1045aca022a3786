/** What traces, metrics and logs share on their way to a collector. */
import { setTimeout as sleep } from "node:timers/promises";
import { diag, DiagLogLevel } from "@opentelemetry/api";
import { ExportResultCode, parseKeyPairsIntoRecord, type ExportResult } from "@opentelemetry/core";
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import type { Logger, RareLog } from "./log.ts";
import { printable } from "./printable.ts";

/** The SDK itself reads the addresses, the timeouts and all other variables (OTEL_…). */
export interface SignalOptions {
  readonly protocol: "http/protobuf" | "http/json";
  /** Headers of every export, each as `name=value,…`, the later ones winning. Read each time: a file may change. */
  readonly headers: readonly (() => string)[];
}

export interface ExportOptions extends SignalOptions {
  readonly resource: Resource;
  readonly version: string;
  readonly log: Logger;
}

const OUTAGES = {
  traces: ["tracing.unavailable", "tracing.recovered"],
  metrics: ["metrics.unavailable", "metrics.recovered"],
  logs: ["logs.unavailable", "logs.recovered"],
} as const;

/** Longest wait for the last export: a silent collector must not delay the shutdown, ms. */
const FLUSH_MS = 1000;

/** The SDK's own timeout only ends a silence; an answer may go on without an end, ms. */
const EXPORT_MS = 30_000;

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

/** The options of an exporter. */
export const withHeaders = ({ headers }: SignalOptions) => ({
  headers: async () =>
    Object.fromEntries(headers.flatMap((read) => Object.entries(parseKeyPairsIntoRecord(read())))),
});

/** Waits for the last export, but not long. */
export async function flushed(shutdown: Promise<void>): Promise<void> {
  await Promise.race([shutdown.catch(() => {}), sleep(FLUSH_MS)]);
}

interface Exporter<T> {
  export(items: T, done: (result: ExportResult) => void): void;
}

/** Logs once when exports begin to fail, and once when they succeed again. */
export function reportOutages<T>(
  exporter: Exporter<T>,
  signal: keyof typeof OUTAGES,
  log: Logger,
): void {
  const [unavailable, recovered] = OUTAGES[signal];
  const send = exporter.export.bind(exporter);
  let failing = false;
  exporter.export = (items, done) => {
    let isDone = false;
    const end = (result: ExportResult): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      const failed = result.code !== ExportResultCode.SUCCESS;
      if (failed && !failing) log.warn({ why: whyOf(result.error) }, unavailable);
      else if (failing && !failed) log.info({}, recovered);
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
 * Logs what the SDK warns of: items that the collector rejects or that did not fit into the queue, an
 * answer that is not OTLP, a wrong variable. Its errors are failed exports, which reportOutages logs.
 */
export function logWarnings(rarely: RareLog): void {
  const ignore = (): void => {};
  const warn = (...all: unknown[]): void => {
    const texts = all.filter((one) => typeof one === "string");
    const why = printable(texts.join(" ").slice(0, WARNING_LENGTH));
    rarely.warn({ why }, "telemetry.warning", why.split(" ", 1).join());
  };
  const logger = { warn, error: ignore, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
