/** What of a span leaves the process, and what is said when it cannot. */
import { ExportResultCode } from "@opentelemetry/core";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace";
import type { Logger } from "./log.ts";

/** None of these can hold what a record, an event, an address or a token says. */
const ATTRIBUTES: ReadonlySet<string> = new Set(
  (
    "bullmq.queue.name bullmq.queue.operation bullmq.job.bulk.count bullmq.job.attempts.made " +
    "crmsync.outcome crmsync.reason crmsync.lane crmsync.record crmsync.tries error.type " +
    "http.request.method http.response.status_code http.route server.address server.port " +
    "url.template"
  ).split(" "),
);

/** BullMQ's way of a job. Its housekeeping would be a trace of its own every few seconds. */
const OPERATIONS: ReadonlySet<unknown> = new Set([
  undefined,
  ..."add addBulk process complete fail delay retry".split(" "),
]);

/** Passes on an allow-list: texts of errors, ids of jobs and what producers wrote stay here. */
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
    status: { value: { code: span.status.code } },
    // An event is an exception with its text, or a job's result.
    events: { value: [] },
    links: { value: [] },
  }) as ReadableSpan;
}

/** Tells once that the collector is away, and once that it is back. */
export function reporting(exporter: SpanExporter, log: Logger): SpanExporter {
  let away = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.code !== ExportResultCode.SUCCESS;
        if (failed && !away) {
          log.warn({ why: whyOf(result.error) }, "tracing.unavailable");
        } else if (away && !failed) log.info({}, "tracing.recovered");
        away = failed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}

/** A text might quote what was sent, or the address with what it holds. */
function whyOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === "number") return `HTTP ${code}`;
  return typeof code === "string" ? code : "no answer";
}
