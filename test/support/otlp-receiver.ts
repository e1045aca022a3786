/** A collector (OTLP/HTTP) that stores what it receives. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export type Signal = "traces" | "metrics" | "logs";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  /** Code 2 is ERROR. */
  readonly status: { readonly code: number; readonly message?: string };
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly unknown[];
  readonly start: bigint;
  readonly end: bigint;
}

export interface ReceivedPoint {
  readonly name: string;
  readonly unit: string;
  readonly type: "sum" | "gauge" | "histogram";
  readonly isMonotonic?: boolean;
  /** 2: cumulative. */
  readonly aggregationTemporality?: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly startTimeUnixNano: string;
  readonly timeUnixNano: string;
  readonly asDouble?: number;
  readonly count?: number;
  readonly sum?: number;
  readonly bucketCounts?: readonly number[];
  readonly explicitBounds?: readonly number[];
}

export interface ReceivedLog {
  readonly timeUnixNano: string;
  readonly severityNumber: number;
  readonly severityText: string;
  readonly body: unknown;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly traceId?: string;
  readonly spanId?: string;
}

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  readonly requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[];
  /** The requests of one signal. */
  of(signal: Signal): OtlpReceiver["requests"];
  /** All that was received; JSON only. */
  spans(): ReceivedSpan[];
  logs(): ReceivedLog[];
  /** The points of the last export. */
  points(): ReceivedPoint[];
  /** The resources of one signal. */
  resources(signal?: Signal): Record<string, unknown>[];
}

interface Value {
  readonly stringValue?: string;
  readonly kvlistValue?: { readonly values: readonly Attribute[] };
  readonly arrayValue?: { readonly values: readonly Value[] };
}

interface Attribute {
  readonly key: string;
  readonly value: Value;
}

type Raw<T> = Omit<T, "attributes" | "events" | "start" | "end" | "body"> & {
  readonly attributes: readonly Attribute[];
};

type RawMetric = { readonly name: string; readonly unit: string } & {
  readonly [type in ReceivedPoint["type"]]?: {
    readonly dataPoints: readonly Raw<ReceivedPoint>[];
    readonly isMonotonic?: boolean;
    readonly aggregationTemporality?: number;
  };
};

/** Of all three kinds of requests. */
interface Resource {
  readonly resource: { readonly attributes: readonly Attribute[] };
  readonly scopeSpans: readonly {
    readonly spans: readonly (Raw<ReceivedSpan> & {
      readonly events?: readonly unknown[];
      readonly startTimeUnixNano: string;
      readonly endTimeUnixNano: string;
    })[];
  }[];
  readonly scopeMetrics: readonly { readonly metrics: readonly RawMetric[] }[];
  readonly scopeLogs: readonly {
    readonly logRecords: readonly (Raw<ReceivedLog> & { readonly body: Value })[];
  }[];
}

const FIELDS = { traces: "resourceSpans", metrics: "resourceMetrics", logs: "resourceLogs" };

/** Accepts everything. */
function accept(response: ServerResponse): void {
  response.writeHead(200).end();
}

/** @param silent accepts requests and never answers @param answer answers in another way */
export async function otlpReceiver({
  port = 0,
  silent = false,
  answer = (response: ServerResponse, _signal: Signal) => accept(response),
} = {}): Promise<OtlpReceiver> {
  const requests: OtlpReceiver["requests"] = [];
  const server = createServer((request, response) => {
    void buffer(request)
      .then((body) => {
        const path = request.url ?? "";
        requests.push({ path, headers: request.headers, body });
        if (!silent) answer(response, path.replace("/v1/", "") as Signal);
      })
      .catch(() => request.socket.destroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const of = (signal: Signal) => requests.filter(({ path }) => path === `/v1/${signal}`);
  const resourcesIn = (signal: Signal, all = of(signal)) =>
    all.flatMap(({ body }) => {
      const parsed = JSON.parse(body.toString()) as Record<string, readonly Resource[]>;
      return parsed[FIELDS[signal]] ?? [];
    });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    of,
    spans: () =>
      resourcesIn("traces").flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) =>
          spans.map(({ startTimeUnixNano, endTimeUnixNano, ...span }) => ({
            ...span,
            attributes: valuesOf(span.attributes),
            events: span.events ?? [],
            start: BigInt(startTimeUnixNano),
            end: BigInt(endTimeUnixNano),
          })),
        ),
      ),
    logs: () =>
      resourcesIn("logs").flatMap(({ scopeLogs }) =>
        scopeLogs.flatMap(({ logRecords }) =>
          logRecords.map((record) => ({
            ...record,
            body: valueOf(record.body),
            attributes: valuesOf(record.attributes),
          })),
        ),
      ),
    points: () =>
      resourcesIn("metrics", of("metrics").slice(-1)).flatMap(({ scopeMetrics }) =>
        scopeMetrics.flatMap(({ metrics }) => metrics.flatMap(pointsOf)),
      ),
    resources: (signal = "traces") =>
      resourcesIn(signal).map(({ resource }) => valuesOf(resource.attributes)),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function pointsOf({ name, unit, ...types }: RawMetric): ReceivedPoint[] {
  return (["sum", "gauge", "histogram"] as const).flatMap((type) => {
    const { dataPoints = [], ...shared } = types[type] ?? {};
    return dataPoints.map((point) => ({
      ...shared,
      ...point,
      name,
      unit,
      type,
      attributes: valuesOf(point.attributes),
    }));
  });
}

/** OTLP wraps each value in an object whose key is its type. */
function valueOf(value: Value): unknown {
  if (value.kvlistValue !== undefined) return valuesOf(value.kvlistValue.values);
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(valueOf);
  return Object.values(value)[0];
}

const valuesOf = (attributes: readonly Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));
