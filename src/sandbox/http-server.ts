import Fastify from "fastify";
import type { FastifyError, FastifyInstance } from "fastify";
import type { Socket } from "node:net";
import { BODY_MAX_BYTES, bodyTooLarge, error, type ServiceResponse } from "./responses.ts";
import { rewriteUrl, send } from "./service.ts";

const REQUEST_TIMEOUT_MS = 60_000;

/** A Fastify server that accepts JSON only and returns every error as an ErrorResponse. */
export function createHttpServer(onError: (error: unknown) => void): FastifyInstance {
  const app = Fastify({
    bodyLimit: BODY_MAX_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    exposeHeadRoutes: false,
    forceCloseConnections: "idle",
    rewriteUrl: (request) => rewriteUrl(request.url ?? "/"),
    frameworkErrors: (_cause, _request, reply) =>
      void send(reply, error(400, "The path is not valid")),
    clientErrorHandler: (cause, socket) => rejectUnreadable(cause, socket),
  });

  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(request.headers["content-type"]!)?.[1];
    if (charset !== undefined && !/^utf-?8$/i.test(charset)) return done(httpError(415));
    if (request.headers["content-encoding"] !== undefined) return done(httpError(415));
    try {
      done(null, body.length === 0 ? undefined : parseJson(body as Buffer));
    } catch {
      done(httpError(400));
    }
  });

  app.setErrorHandler((cause: FastifyError, _request, reply) => {
    const status = cause.statusCode ?? 500;
    if (status >= 500) onError(cause);
    void send(reply, errorResponse(status));
  });
  app.setNotFoundHandler((_request, reply) => send(reply, error(404, "No such page")));
  return app;
}

function errorResponse(status: number): ServiceResponse {
  switch (status) {
    case 400:
      return error(400, "Invalid input: the body is not valid JSON in UTF-8");
    case 413:
      return bodyTooLarge();
    case 415:
      return error(415, "The body must be sent as application/json, in UTF-8 and not compressed");
    default:
      return error(status < 500 ? status : 500, "Internal server error");
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function parseJson(body: Buffer): unknown {
  return JSON.parse(utf8.decode(body));
}

function httpError(statusCode: number): Error {
  return Object.assign(new Error(), { statusCode });
}

/** Responds to a request that Node could not parse as HTTP. */
function rejectUnreadable(cause: NodeJS.ErrnoException, socket: Socket): void {
  if (cause.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, reason] =
    cause.code === "HPE_HEADER_OVERFLOW"
      ? [431, "Request Header Fields Too Large"]
      : cause.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? [408, "Request Timeout"]
        : [400, "Bad Request"];
  const { body } = error(status, reason);
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
