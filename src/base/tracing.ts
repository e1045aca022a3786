/**
 * Tracing as the rest of crmsync sees it. This file loads nothing of OpenTelemetry, so a daemon
 * without a collector pays neither memory nor time (docs/adr/0010-traces.md).
 */
import type { BullMQOtel } from "bullmq-otel";

export interface TracingOptions {
  readonly sampler: `${"" | "parentbased_"}${"always_on" | "always_off" | "traceidratio"}`;
  /** Share of traces to record, from 0 to 1; used by the two ratio samplers. */
  readonly ratio: number;
  /** The path of a request with its identifiers replaced by names; undefined when unknown. */
  readonly templateOf: (path: string) => string | undefined;
  /** Headers of every export, as `name=value,…`. */
  readonly headers: (() => string) | undefined;
  readonly version: string;
}

/** Our own attributes of a span: a closed set, so that none can hold a record's data. */
export type Note = Partial<
  Record<
    | "crmsync.outcome"
    | "crmsync.reason"
    | "crmsync.lane"
    /** Hash of the crmCode, as in the log. */
    | "crmsync.record"
    | "crmsync.tries",
    string | number | undefined
  >
>;

export interface SpanStart {
  /** Telemetry metadata of the job, from the process that added it. */
  readonly carried?: string | undefined;
  /** ms since the epoch; default: now. */
  readonly startedAt?: number;
}

/** Names a span in a log line and in an exemplar, by the names that Grafana and others look for. */
export interface SpanIds {
  readonly trace_id: string;
  readonly span_id: string;
}

export interface Tracing {
  /** The active span, if it is recorded. Undefined without a collector. */
  readonly spanIds?: () => SpanIds | undefined;
  /** The active span, as BullMQ carries it to the worker of a job. Undefined without a collector. */
  readonly carried?: () => string | undefined;
  /** To be spread into the options of BullMQ's queues and workers. */
  readonly bullmq: { readonly telemetry?: BullMQOtel };
  /** Runs the work in a span whose parent is the span that added the job (`carried`) or the active one. */
  span<T>(name: string, start: SpanStart, work: () => Promise<T>): Promise<T>;
  /** Adds a finished child span to the active span; times in ms since the epoch. */
  past(name: string, from: number, until: number): void;
  /** Sets attributes of the active span, and its status if its change failed; nothing without a collector. */
  note(noteOf: () => Note): void;
  /**
   * Starts the span of a received HTTP request and calls `next` inside it.
   * @returns ends the span, with the status of the response.
   */
  serve(method: string, route: string, next: () => void): (status: number) => void;
  /** Exports the remaining spans; takes at most a second. */
  close(): Promise<void>;
}

export const NO_TRACING: Tracing = {
  bullmq: {},
  span: (_name, _start, work) => work(),
  past() {},
  note() {},
  serve(_method, _route, next) {
    next();
    return () => {};
  },
  close: async () => {},
};
