/** One HTTP exchange over undici: deadline, size limit, and the meaning of network errors. */
import { isUtf8 } from "node:buffer";
import { proxyFor } from "../../base/proxy-for.ts";
import { createAgent, errors, type AgentOptions, type Dispatcher } from "../../base/undici.ts";
import type { UnavailableReason } from "../sync/service-reply.ts";
import { API_PREFIX } from "../service-spec/limits.ts";
import { StalePermitError, type Permit } from "../quota/permit.ts";
import type { ReplyHeaders } from "../../base/retry-after.ts";
import type { Operation, HttpResponse, Unavailable } from "./reply.ts";

export interface ExchangeOptions {
  /** URL of the service without the version prefix. It may have a path of its own. */
  readonly baseUrl: string;
  /** Limit for the whole exchange, from the connection to the last byte of the response, ms. */
  readonly timeoutMs: number;
  readonly connections?: number;
  readonly proxy?: AgentOptions["proxy"];
}

export interface Request {
  readonly operation: Operation;
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly token: string;
  readonly body: string | undefined;
}

export type ResponseOrFailure =
  | (HttpResponse & { readonly headers: ReplyHeaders })
  | { readonly failure: Unavailable };

/** The larger limit is for pages: 5000 relations with every field filled are below it. */
const MAX_BODY_BYTES = 1024 * 1024;
const MAX_PAGE_BYTES = 64 * MAX_BODY_BYTES;

/** Limit for connecting, ms: a permit must not expire while it waits for a connection. */
const CONNECT_TIMEOUT_MS = 5000;

const KEEP_ALIVE_MS = 30_000;

class OversizedError extends Error {}
class DeadlineError extends Error {}

export function createExchange(options: ExchangeOptions) {
  const base = new URL(options.baseUrl);
  const prefix = base.pathname.replace(/\/+$/, "") + API_PREFIX;
  const proxy = options.proxy ?? {};
  const isProxied = proxyFor(base, proxy) !== undefined;
  const agent = createAgent({
    proxy,
    connections: options.connections ?? 20,
    connectTimeout: Math.min(CONNECT_TIMEOUT_MS, options.timeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
    pipelining: 1,
    // On HTTP/2 all requests share one connection: when it falls silent, every one of them would end with it.
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  });

  async function run(permit: Permit, request: Request): Promise<ResponseOrFailure> {
    const writes = request.method !== "GET";
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new DeadlineError()), options.timeoutMs);
    try {
      const response = await guarded(agent, permit).request({
        origin: base.origin,
        path: prefix + request.path,
        method: request.method,
        headers: {
          authorization: `Bearer ${request.token}`,
          accept: "application/json",
          // Without it a gateway may compress what it returns.
          "accept-encoding": "identity",
          // A cached answer may be older than what we have written since.
          ...(!writes && { "cache-control": "no-cache" }),
          ...(request.body !== undefined && { "content-type": "application/json" }),
        },
        ...(request.body !== undefined && { body: request.body }),
        signal: deadline.signal,
      });
      const { statusCode: status, headers } = response;
      if (status === 429) {
        // Whatever its body says, and however slowly: each moment lets other requests follow.
        response.body.on("error", () => {}).destroy();
        return { status, headers, contentType: undefined, body: "" };
      }
      const contentType = headers["content-type"];
      const limit = request.operation === "list" ? MAX_PAGE_BYTES : MAX_BODY_BYTES;
      try {
        const bytes = await readBody(response.body, limit);
        if (request.operation === "get" && status < 300 && !isUtf8(bytes)) {
          // What is read here is sent back: characters would be lost at the service.
          return { failure: { kind: "unavailable", reason: "not_json", ambiguous: false, status } };
        }
        const type = Array.isArray(contentType) ? contentType[0] : contentType;
        return { status, headers, contentType: type, body: bytes.toString("utf8") };
      } catch (error) {
        // Without its body, a response with such a status is classified as not the service's.
        if (status >= 300) return { status, headers, contentType: undefined, body: "" };
        const reason = bodyReason(error);
        return { failure: { kind: "unavailable", reason, ambiguous: writes, status } };
      }
    } catch (error) {
      const reason = reasonOf(error);
      // What was not reached was the proxy: that of this process, and not the service.
      const isOfProxy = isProxied && !permit.spent && OF_CONNECTION.has(reason);
      return {
        failure: {
          kind: "unavailable",
          reason: isOfProxy ? "proxy" : reason,
          ambiguous: writes && permit.spent,
        },
      };
    } finally {
      clearTimeout(timer);
    }
  }

  return { run, close: () => agent.destroy() };
}

/** The agent for one request. It spends the permit when the request is written, not before. */
function guarded(agent: Dispatcher, permit: Permit): Dispatcher {
  return agent.compose((dispatch) => (request, handler) => {
    const onRequestStart = handler.onRequestStart?.bind(handler);
    handler.onRequestStart = (controller, context) => {
      permit.spend();
      onRequestStart?.(controller, context);
    };
    return dispatch(request, handler);
  });
}

async function readBody(body: AsyncIterable<Buffer>, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) throw new OversizedError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function bodyReason(error: unknown): UnavailableReason {
  if (error instanceof OversizedError) return "oversized_body";
  const reason = reasonOf(error);
  return reason === "timeout" || reason === "closed" ? reason : "truncated_body";
}

/** The codes of errors, by what they mean. */
const CODES: Readonly<Partial<Record<UnavailableReason, string>>> = {
  connection_refused: "ECONNREFUSED",
  unreachable: "EHOSTDOWN EHOSTUNREACH ENETDOWN ENETUNREACH",
  reset: "ECONNRESET EPIPE UND_ERR_SOCKET",
  dns: "ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA",
  connect_timeout: "UND_ERR_CONNECT_TIMEOUT ETIMEDOUT",
  // Only a proxy has a limit for headers: for its tunnel.
  proxy: "UND_ERR_HEADERS_TIMEOUT UND_ERR_PRX_CONN",
  closed: "UND_ERR_DESTROYED UND_ERR_CLOSED",
  truncated_body: "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
};

const REASON_BY_CODE = new Map(
  Object.entries(CODES).flatMap(([reason, codes]) =>
    codes.split(" ").map((code) => [code, reason as UnavailableReason] as const),
  ),
);

/** How connecting can fail. */
const OF_CONNECTION: ReadonlySet<UnavailableReason> = new Set([
  "connect_timeout",
  "connection_refused",
  "unreachable",
  "reset",
]);

/** Uses the error's type and code only: its message may contain an address. */
function reasonOf(error: unknown): UnavailableReason {
  if (error instanceof DeadlineError) return "timeout";
  if (error instanceof StalePermitError) return "stale_permit";
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return "network";
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (error instanceof errors.RequestAbortedError && /Proxy/.test(error.message)) return "proxy";
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/.test(code)) return "tls";
  return REASON_BY_CODE.get(code) ?? "network";
}
