import { fastify, type FastifyInstance, type FastifyReply } from "fastify";
import type { Overload } from "../ops/overload.ts";
import { limitConnections } from "./connections.ts";
import * as limits from "./limits.ts";
import { Refusal } from "./refusal.ts";
import { refuseUnreadable } from "./unreadable.ts";

export interface HttpServerOptions {
  readonly defect: (error: unknown) => void;
  readonly refused: (why: Overload) => void;
  /** Addresses of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies?: readonly string[] | undefined;
}

/** For every response; the page /queues has its own content security policy. */
const SECURITY_HEADERS = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** A server whose errors are all JSON with an `error`, and that does not log requests. */
export function createHttpServer(options: HttpServerOptions): FastifyInstance {
  const { defect, refused, trustedProxies = [] } = options;
  const app = fastify({
    logger: false,
    // What closes connections, and when, is in connections.ts.
    forceCloseConnections: false,
    return503OnClosing: false,
    requestTimeout: limits.REQUEST_MS,
    routerOptions: { maxParamLength: limits.PARAMETER },
    maxRequestsPerSocket: limits.REQUESTS_PER_CONNECTION,
    schemaController: {
      compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas },
    },
    // An address that cannot be decoded; Fastify's own answer quotes it.
    frameworkErrors: refuseAddress,
    clientErrorHandler: (error, socket) => refuseUnreadable(error, socket, SECURITY_HEADERS),
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    http: {
      connectionsCheckingInterval: limits.LATE_CHECK_MS,
      // Set both: Node swaps the two timeouts when the one for headers is longer.
      headersTimeout: limits.REQUEST_MS,
      maxHeaderSize: limits.HEADERS,
    },
  });
  limitConnections(app, limits.CONNECTIONS, refused);
  app.addHook("onSend", async (_request, reply) => {
    void reply.headers(SECURITY_HEADERS);
  });
  app.setNotFoundHandler(async (request, reply) =>
    reply.code(404).send({ error: `there is nothing at ${request.method} ${pathOf(request.url)}` }),
  );
  app.setErrorHandler(async (error, _request, reply) => {
    if (error instanceof Refusal) {
      return reply.code(error.statusCode).headers(error.headers).send({ error: error.message });
    }
    const status = (error as { statusCode?: number }).statusCode ?? 500;
    if (status >= 500) {
      defect(error);
      return reply.code(500).send({ error: "internal error" });
    }
    return reply.code(status).send({ error: messageOf(error, status) });
  });
  return app;
}

/** No route has a schema: bodies are checked by zod. Fastify's own compilers take 4 MB. */
const noSchemas = () => () => {
  throw new Error("this server compiles no schemas of routes");
};

const refuseAddress = (_error: unknown, _request: unknown, reply: FastifyReply): void =>
  void reply.code(400).headers(SECURITY_HEADERS).send({ error: "the address is not valid" });

const pathOf = (url: string): string => url.split("?")[0]?.slice(0, 200) ?? "";

/** Only texts of our own: the parser's messages may quote the body. */
function messageOf(error: unknown, status: number): string {
  switch (status) {
    case 415:
      return "the content type must be application/cloudevents+json, application/cloudevents-batch+json or application/json";
    case 400:
      return "the request is not valid HTTP";
    default:
      return error instanceof Error && "code" in error ? String(error.code) : "bad request";
  }
}
