import { fastify, type FastifyInstance } from "fastify";

/** Time for a request to arrive completely, ms. */
const REQUEST_TIMEOUT_MS = 10_000;

/** How often Node checks for late requests, ms; its default is 30 s. */
const LATE_CHECK_MS = 2000;

/** A server whose errors are all JSON with an `error`, and that does not log requests. */
export function createHttpServer(onDefect: (error: unknown) => void): FastifyInstance {
  const app = fastify({
    logger: false,
    // What closes connections, and when, is in drain.ts.
    forceCloseConnections: false,
    return503OnClosing: false,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Set both: Node swaps the two timeouts when the one for headers is longer.
    http: { connectionsCheckingInterval: LATE_CHECK_MS, headersTimeout: REQUEST_TIMEOUT_MS },
  });
  app.setNotFoundHandler(async (request, reply) =>
    reply.code(404).send({ error: `there is nothing at ${request.method} ${pathOf(request.url)}` }),
  );
  app.setErrorHandler(async (error, _request, reply) => {
    const status = (error as { statusCode?: number }).statusCode ?? 500;
    if (status >= 500) {
      onDefect(error);
      return reply.code(500).send({ error: "internal error" });
    }
    return reply.code(status).send({ error: messageOf(error, status) });
  });
  return app;
}

const pathOf = (url: string): string => url.split("?")[0]?.slice(0, 200) ?? "";

/** Only texts of our own: the parser's messages may quote the body. */
function messageOf(error: unknown, status: number): string {
  switch (status) {
    case 413:
      return "the body is too large (limit: 1 MiB for /events, 4 MiB for /webhooks); send smaller batches";
    case 415:
      return "the content type must be application/cloudevents+json, application/cloudevents-batch+json or application/json";
    case 400:
      return "the body is not valid JSON";
    default:
      return error instanceof Error && "code" in error ? String(error.code) : "bad request";
  }
}
