import * as limits from "./limits.ts";
import { fastify, type FastifyInstance, type FastifyReply } from "fastify";
import type { Overload } from "../../base/overload.ts";
import { limitConnections } from "./connections.ts";
import { Refusal, HEADERS, REQUEST_MS } from "./limits.ts";
import type { Socket } from "node:net";

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

type Answer = readonly [status: string, error: string];

/** The answer to each kind of unreadable request. The key is the code of Node's error. */
const ANSWERS: ReadonlyMap<string | undefined, Answer> = new Map([
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    [
      "408 Request Timeout",
      `the request did not arrive completely within ${REQUEST_MS / 1000} s, and nothing of it was stored; send it again`,
    ],
  ],
  [
    "HPE_HEADER_OVERFLOW",
    [
      "431 Request Header Fields Too Large",
      `the first line and the headers are larger than ${HEADERS / 1024} KiB together`,
    ],
  ],
]);
const NOT_HTTP: Answer = [
  "400 Bad Request",
  "the request is not valid HTTP/1.1; for HTTPS, a proxy must stand in front (docs/http.md)",
];

/** Answers, and closes the connection as Node itself does: nothing more that comes on it can be understood. */
function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: Socket,
  headers: Readonly<Record<string, string>>,
): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const [status, text] = ANSWERS.get(error.code) ?? NOT_HTTP;
  const body = JSON.stringify({ error: text });
  const head = Object.entries({
    ...headers,
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\n${head.join("")}\r\n${body}`);
  socket.destroy(error);
}
