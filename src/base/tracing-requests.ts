/**
 * Spans of the requests that undici sends. A diagnostics channel only observes: no listener can add
 * a header to a request. Of its address only the host, the port and the path's template are read.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { SpanKind, SpanStatusCode, type Span, type Tracer } from "@opentelemetry/api";

interface Request {
  readonly method?: string;
  readonly origin?: string | URL;
  readonly path: string;
}

export type TemplateOf = (path: string) => string | undefined;

/** @returns stops the tracing. */
export function traceRequests(tracer: Tracer, templateOf: TemplateOf): () => void {
  const spans = new WeakMap<Request, Span>();

  function created(message: unknown): void {
    const { request } = message as { request: Request };
    const { method = "GET", origin, path } = request;
    // Opens a tunnel through a proxy; the request inside the tunnel has a span of its own.
    if (method === "CONNECT") return;
    const template = templateOf(path);
    const url = URL.parse(String(origin));
    spans.set(
      request,
      tracer.startSpan(template === undefined ? method : `${method} ${template}`, {
        kind: SpanKind.CLIENT,
        attributes: {
          "http.request.method": method,
          "server.address": url?.hostname ?? "",
          "server.port": Number(url?.port) || (url?.protocol === "http:" ? 80 : 443),
          ...(template !== undefined && { "url.template": template }),
        },
      }),
    );
  }

  function responded(message: unknown): void {
    const { request, response } = message as { request: Request; response: { statusCode: number } };
    const { statusCode } = response;
    const span = spans.get(request);
    span?.setAttribute("http.response.status_code", statusCode);
    if (statusCode >= 400) failedWith(span, String(statusCode));
  }

  function ended(message: unknown): void {
    const { request } = message as { request: Request };
    spans.get(request)?.end();
    spans.delete(request);
  }

  function failed(message: unknown): void {
    const { request, error } = message as { request: Request; error: unknown };
    failedWith(spans.get(request), typeOf(error));
    ended({ request });
  }

  const listeners = {
    "undici:request:create": created,
    "undici:request:headers": responded,
    "undici:request:trailers": ended,
    "undici:request:error": failed,
  };
  for (const [channel, listener] of Object.entries(listeners)) subscribe(channel, listener);
  return () => {
    for (const [channel, listener] of Object.entries(listeners)) unsubscribe(channel, listener);
  };
}

export function failedWith(span: Span | undefined, type: string): void {
  span?.setAttribute("error.type", type).setStatus({ code: SpanStatusCode.ERROR });
}

/** The code or the name of an error, if it is one word. Its text may hold anything. */
export function typeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  const isWord = (text: unknown): text is string =>
    typeof text === "string" && /^\w{1,60}$/.test(text);
  return [code, name].find(isWord) ?? "_OTHER";
}
