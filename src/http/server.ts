import { fastify, type FastifyInstance } from "fastify";

/** How long a connection may be quiet before its request is there, ms. */
const REQUEST_TIMEOUT_MS = 10_000;

/** How often Node looks for requests that are late, ms; its own 30 s would treble the time. */
const LATE_LOOK_MS = 2000;

/** A server whose every refusal is JSON with an `error`, and that logs no request by itself. */
export function createHttpServer(onDefect: (error: unknown) => void): FastifyInstance {
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Node swaps the two timeouts where the one for headers is the longer.
    http: { connectionsCheckingInterval: LATE_LOOK_MS, headersTimeout: REQUEST_TIMEOUT_MS },
    return503OnClosing: true,
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

/** What the parser says of a body may quote the body: only our own words leave. */
function messageOf(error: unknown, status: number): string {
  switch (status) {
    case 413:
      return "the body is larger than is taken here (1 MiB for events): send smaller batches";
    case 415:
      return "the content type must be application/cloudevents+json, application/cloudevents-batch+json or application/json";
    case 400:
      return "the body is not valid JSON";
    default:
      return error instanceof Error && "code" in error ? String(error.code) : "bad request";
  }
}
