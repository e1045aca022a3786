/** A collector (OTLP/HTTP) that stores what it receives. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

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

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  readonly requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[];
  /** All that was received. */
  spans(): ReceivedSpan[];
  resources(): Record<string, unknown>[];
}

interface Value {
  readonly stringValue?: string;
  readonly arrayValue?: { readonly values: readonly Value[] };
}

interface Attribute {
  readonly key: string;
  readonly value: Value;
}

interface Resource {
  readonly resource: { readonly attributes: readonly Attribute[] };
  readonly scopeSpans: readonly {
    readonly spans: readonly (Omit<ReceivedSpan, "attributes" | "events" | "start" | "end"> & {
      readonly attributes: readonly Attribute[];
      readonly events?: readonly unknown[];
      readonly startTimeUnixNano: string;
      readonly endTimeUnixNano: string;
    })[];
  }[];
}

/** Accepts everything. */
function accept(response: ServerResponse): void {
  response.writeHead(200).end();
}

/** @param silent accepts requests and never answers @param answer answers in another way */
export async function otlpReceiver({
  port = 0,
  silent = false,
  answer = accept,
} = {}): Promise<OtlpReceiver> {
  const requests: OtlpReceiver["requests"] = [];
  const server = createServer((request, response) => {
    void buffer(request)
      .then((body) => {
        const path = request.url ?? "";
        requests.push({ path, headers: request.headers, body });
        if (!silent) answer(response);
      })
      .catch(() => request.socket.destroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const received = () =>
    requests.flatMap(
      ({ body }) =>
        (JSON.parse(body.toString()) as { resourceSpans?: readonly Resource[] }).resourceSpans ??
        [],
    );
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans: () =>
      received().flatMap(({ scopeSpans }) =>
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
    resources: () => received().map(({ resource }) => valuesOf(resource.attributes)),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** OTLP wraps each value in an object whose key is its type. */
function valueOf(value: Value): unknown {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(valueOf);
  return Object.values(value)[0];
}

const valuesOf = (attributes: readonly Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));
