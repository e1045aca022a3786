/** Removes personal data from spans before their export. */
import { SpanStatusCode } from "@opentelemetry/api";
import { BatchSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace";

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
