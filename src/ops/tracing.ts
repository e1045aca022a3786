/**
 * Traces by OTLP, for those who ask for them. Nothing of OpenTelemetry is loaded here: a daemon
 * without a collector pays neither memory nor time. docs/adr/0010 tells what is told and what not.
 */
import type { BullMQOtel } from "bullmq-otel";
import type { Logger } from "./log.ts";

/** Where to and how much; address, timeout and the rest the SDK reads itself (OTEL_…). */
export interface TracingOptions {
  readonly protocol: "http/protobuf" | "http/json";
  readonly sampler: `${"" | "parentbased_"}${"always_on" | "always_off" | "traceidratio"}`;
  /** Of the two samplers by ratio. */
  readonly ratio: number;
  /** Sent with every export, as `name=value,…`; asked each time, for it may be a file's. */
  readonly headers: (() => string) | undefined;
  readonly version: string;
  readonly log: Logger;
  /** A request's path without what names a record; undefined for one that is not known. */
  readonly templateOf: (path: string) => string | undefined;
}

/** Of a span only these are ever sent; no other name may come to hold what a record says. */
export type Note = Partial<
  Record<
    | "crmsync.outcome"
    | "crmsync.reason"
    | "crmsync.lane"
    /** The crmCode's hash, as in the log. */
    | "crmsync.record"
    | "crmsync.tries",
    string | number | undefined
  >
>;

export interface SpanStart {
  /** What came with the job from the one who added it, if it was traced. */
  readonly carried?: string | undefined;
  /** ms since the epoch; now, unless told. */
  readonly startedAt?: number;
}

export interface Tracing {
  /** For the options of BullMQ's queues and workers. */
  readonly bullmq: { readonly telemetry?: BullMQOtel };
  /** Runs work as a span, below that of its job's producer or else the one it is called in. */
  span<T>(name: string, start: SpanStart, work: () => Promise<T>): Promise<T>;
  /** Adds to the span it is called in what went on before that span could be begun. */
  past(name: string, from: number, until: number): void;
  /** Says something of the span it is called in. */
  note(note: Note): void;
  /** Begins the span of a request that came in, and goes on in it. @returns what ends it. */
  serve(method: string, route: string, goOn: () => void): (status: number) => void;
  /** Sends what is left, within a second. */
  close(): Promise<void>;
}

export const NO_TRACING: Tracing = {
  bullmq: {},
  span: (_name, _start, work) => work(),
  past() {},
  note() {},
  serve(_method, _route, goOn) {
    goOn();
    return () => {};
  },
  close: async () => {},
};

export async function startTracing(options: TracingOptions): Promise<Tracing> {
  return (await import("./tracing-otel.ts")).openTracing(options);
}
