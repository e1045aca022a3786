/**
 * Spans of what undici sends. Its diagnostics channels only look on: no header can come into a
 * request from here, and of its address nothing is read but the host and the known words of a path.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { SpanKind, SpanStatusCode, type Span, type Tracer } from "@opentelemetry/api";

interface Request {
  readonly method?: string;
  readonly origin?: string | URL;
  readonly path: string;
}

export type TemplateOf = (path: string) => string | undefined;

/** @returns what ends it. */
export function traceRequests(tracer: Tracer, templateOf: TemplateOf): () => void {
  const spans = new WeakMap<Request, Span>();

  function created(message: unknown): void {
    const { request } = message as { request: Request };
    const { method = "GET", origin, path } = request;
    // The tunnel of a proxy; what goes through it has a span of its own.
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

  function answered(message: unknown): void {
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
    "undici:request:headers": answered,
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

/** Codes and names are words of the code's; a text may say anything. */
export function typeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  const isWord = (text: unknown): text is string =>
    typeof text === "string" && /^\w{1,60}$/.test(text);
  return [code, name].find(isWord) ?? "_OTHER";
}
