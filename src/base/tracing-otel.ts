/** Tracing with OpenTelemetry's SDK; loaded only when a collector is configured. */
import {
  context,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  trace,
  type Context,
  type Span,
  type TextMapPropagator,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { TRACE_PARENT_HEADER, W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
} from "@opentelemetry/sdk-trace";
import { BullMQOtel } from "bullmq-otel";
import type { Logger } from "./log.ts";
import { flushed, openExporter, resourceOf, ScrubbingProcessor } from "./tracing-export.ts";
import { failedWith, traceRequests, typeOf } from "./tracing-requests.ts";
import type { Tracing, TracingOptions } from "./tracing.ts";

/** Outcomes that a search for failed spans must find. */
const FAILED: ReadonlySet<unknown> = new Set(["rejected", "unavailable"]);

export function openTracing(options: TracingOptions & { readonly log: Logger }): Tracing {
  const exporter = openExporter(options.headers, options.log);
  const provider = new TracerProvider({
    resource: resourceOf(options.version),
    sampler: samplerOf(options),
    spanProcessors: [new ScrubbingProcessor({ exporter })],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(onlyTraceParent());
  trace.setGlobalTracerProvider(provider);
  const tracer = trace.getTracer("crmsync", options.version);
  const stopRequests = traceRequests(tracer, options.templateOf);
  const telemetry = ignoreBadMetadata(new BullMQOtel({ tracerName: "bullmq" }));

  function begin(name: string, kind: SpanKind, parent: Context, startedAt?: number): Span {
    // The SDK reads a plain number as the time since the process started.
    const startTime = startedAt === undefined ? {} : { startTime: new Date(startedAt) };
    return tracer.startSpan(name, { kind, ...startTime }, parent);
  }

  return {
    bullmq: { telemetry },
    carried: () => telemetry.contextManager.getMetadata(context.active()),
    async span(name, { carried, startedAt }, work) {
      const active = context.active();
      const parent =
        carried === undefined ? active : telemetry.contextManager.fromMetadata(active, carried);
      const kind = carried === undefined ? SpanKind.INTERNAL : SpanKind.CONSUMER;
      const span = begin(name, kind, parent, startedAt);
      try {
        return await context.with(trace.setSpan(parent, span), work);
      } catch (error) {
        failedWith(span, typeOf(error));
        throw error;
      } finally {
        span.end();
      }
    },
    past(name, from, until) {
      begin(name, SpanKind.INTERNAL, context.active(), from).end(new Date(Math.max(from, until)));
    },
    note(noteOf) {
      const note = noteOf();
      const known = Object.entries(note).filter(([, value]) => value !== undefined);
      const span = trace.getActiveSpan()?.setAttributes(Object.fromEntries(known));
      const { "crmsync.outcome": outcome, "crmsync.reason": reason } = note;
      if (FAILED.has(outcome)) failedWith(span, String(reason ?? outcome));
    },
    spanIds() {
      const active = trace.getActiveSpan();
      if (active?.isRecording() !== true) return undefined;
      const { traceId, spanId } = active.spanContext();
      return { trace_id: traceId, span_id: spanId };
    },
    serve(method, route, next) {
      const span = begin(`${method} ${route}`, SpanKind.SERVER, ROOT_CONTEXT);
      span.setAttributes({ "http.request.method": method, "http.route": route });
      context.with(trace.setSpan(ROOT_CONTEXT, span), next);
      return (status) => {
        span.setAttribute("http.response.status_code", status);
        if (status >= 500) failedWith(span, String(status));
        span.end();
      };
    },
    async close() {
      stopRequests();
      await flushed(provider.shutdown());
    },
  };
}

function samplerOf({ sampler, ratio }: TracingOptions): Sampler {
  const roots = {
    always_on: new AlwaysOnSampler(),
    always_off: new AlwaysOffSampler(),
    traceidratio: new TraceIdRatioBasedSampler(ratio),
  };
  const root = roots[sampler.replace("parentbased_", "") as keyof typeof roots];
  return sampler.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

/**
 * A job carries the id of its trace and nothing else: tracestate and baggage of other senders are
 * texts of unknown content.
 */
function onlyTraceParent(): TextMapPropagator {
  const w3c = new W3CTraceContextPropagator();
  return {
    inject: (from, carrier, setter) =>
      w3c.inject(from, carrier, {
        set: (to, name, value) => {
          if (name === TRACE_PARENT_HEADER) setter.set(to, name, value);
        },
      }),
    extract: (into, carrier, getter) =>
      w3c.extract(into, carrier, {
        keys: () => [TRACE_PARENT_HEADER],
        get: (from, name) => (name === TRACE_PARENT_HEADER ? getter.get(from, name) : undefined),
      }),
    fields: () => [TRACE_PARENT_HEADER],
  };
}

/** Any client may add jobs: metadata that cannot be read must not keep its event out. */
function ignoreBadMetadata(telemetry: BullMQOtel): BullMQOtel {
  const { contextManager } = telemetry;
  const fromMetadata = contextManager.fromMetadata.bind(contextManager);
  contextManager.fromMetadata = (active, metadata) => {
    try {
      return fromMetadata(active, metadata);
    } catch {
      return active;
    }
  };
  return telemetry;
}
