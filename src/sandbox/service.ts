import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Admission } from "./admission.ts";
import type { BusinessRelations } from "./business-relations.ts";
import type { Client } from "./directory.ts";
import {
  findTarget,
  isServicePath,
  type BusinessRelationsOperation,
  type Target,
} from "./operations.ts";
import type { RequestLog } from "./request-log.ts";
import {
  BODY_MAX_BYTES,
  bodyTooLarge,
  error,
  quotaHeaders,
  tooManyRequests,
  type RetryAfterFormat,
  type ServiceResponse,
} from "./responses.ts";

/** One route for all addresses of the service: `findTarget` reads the path as it was sent. */
const SERVICE_ROUTE = "/service";

declare module "fastify" {
  interface FastifyRequest {
    /** Set for requests to one of the five operations that passed all checks. */
    admitted: AdmittedRequest | null;
  }
}
interface ReceivedRequest {
  readonly operation: string;
  /** By the monotonic clock. */
  readonly startedMs: number;
  client: Client | undefined;
}
export interface AdmittedRequest {
  readonly client: Client;
  readonly operation: BusinessRelationsOperation;
  readonly crmCode: string;
}

export interface ServiceOptions {
  readonly admission: Admission;
  readonly relations: BusinessRelations;
  readonly log: RequestLog;
  /** Whether every response has the quota's headers, or a 429 only. */
  readonly rateHeaders: "429" | "all";
  readonly retryAfter: RetryAfterFormat;
}

/** Rewrites `/v1.1/…` to the one route of the service. */
export function rewriteUrl(url: string): string {
  return isServicePath(pathOf(url)) ? SERVICE_ROUTE : url;
}

/** The path of a request target, which may also be an absolute address (RFC 9112, 3.2.2). */
export function pathOf(url: string): string {
  const target = url.startsWith("/") ? url : url.replace(/^https?:\/\/[^/?]*/i, "");
  const end = target.search(/[?#]/);
  return end === -1 ? target : target.slice(0, end);
}

export function serveBusinessRelations(app: FastifyInstance, options: ServiceOptions): void {
  const { admission, relations, log } = options;
  app.decorateRequest("admitted", null);

  // Requests that fail a check get their response before the body is read.
  app.addHook("onRequest", (request, reply, next) => {
    const path = pathOf(request.originalUrl);
    if (!isServicePath(path)) return next();
    const target = findTarget(request.method, path);
    const operation = target.kind === "operation" ? target.operation : target.kind;
    const received: ReceivedRequest = {
      operation,
      startedMs: performance.now(),
      client: undefined,
    };
    // Fastify's onResponse hook does not run when a fault cuts the connection; "close" always comes.
    reply.raw.once("close", () => logRequest(log, received, request, reply));
    const failure = admit(request, reply, target, received);
    if (failure === undefined) return next();
    void send(reply, failure);
  });

  app.all(SERVICE_ROUTE, (request, reply) => {
    // The address was this inner route, not one of the service's paths.
    if (request.admitted === null) return send(reply, error(404, "No such endpoint"));
    const { client, operation, crmCode } = request.admitted;
    const handle: Record<BusinessRelationsOperation, () => ServiceResponse> = {
      "schema-config": () => relations.schemaConfig(client),
      list: () => relations.list(client, queryOf(request.originalUrl)),
      get: () => relations.get(client, crmCode),
      create: () => relations.create(client, request.body),
      update: () => relations.update(client, crmCode, request.body),
    };
    return send(reply, handle[operation]());
  });

  /** Sets `request.admitted`; otherwise returns the response to send. */
  function admit(
    request: FastifyRequest,
    reply: FastifyReply,
    target: Target,
    received: ReceivedRequest,
  ): ServiceResponse | undefined {
    reply.header("cache-control", "no-store");
    const result = admission.check(request.raw);
    received.client = result.client;
    if (!result.admitted) return result.response;
    const nowMs = Date.now();
    const count = admission.count(result.client, nowMs);
    if (!count.counted) return tooManyRequests(count, options.retryAfter, nowMs);
    if (options.rateHeaders === "all") reply.headers(quotaHeaders(count));
    if (target.kind !== "operation") return noOperation(target, request.method);
    // Fastify would cut the connection: a client that is still sending would not get the response.
    if (Number(request.headers["content-length"] ?? 0) > BODY_MAX_BYTES) return bodyTooLarge();
    const { operation, crmCode } = target;
    request.admitted = { client: result.client, operation, crmCode };
    return undefined;
  }
}

function logRequest(
  log: RequestLog,
  { operation, startedMs, client }: ReceivedRequest,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const ms = performance.now() - startedMs;
  log.record(client?.tenantId, operation, {
    at: new Date(Date.now() - ms).toISOString(),
    method: request.method,
    path: pathOf(request.originalUrl),
    status: reply.raw.writableFinished ? reply.raw.statusCode : null,
    ms: Math.round(ms * 10) / 10,
  });
}

function noOperation(
  target: Exclude<Target, { kind: "operation" }>,
  method: string,
): ServiceResponse {
  switch (target.kind) {
    case "not-implemented": {
      const { path, purpose, announced } = target.endpoint;
      const why = announced
        ? "the service announces it as not implemented yet"
        : "the service's specification lists it by name only";
      return error(501, `Not implemented: ${target.endpoint.method} ${path} (${purpose}): ${why}`);
    }
    case "method-not-allowed": {
      const allow = target.allow.join(", ");
      return error(405, `Method ${method} is not allowed here, only ${allow}`, { allow });
    }
    case "bad-path":
      return error(400, "The path is not valid percent-encoded UTF-8");
    case "unknown":
      return error(404, "No such endpoint");
  }
}

/** Of an error that a fault injects, the headers may name another content type. */
export const send = (
  reply: FastifyReply,
  { status, headers, body }: ServiceResponse,
): FastifyReply =>
  reply
    .code(status)
    .type("application/json")
    .headers(headers ?? {})
    .send(body);

export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start === -1 ? "" : url.slice(start + 1));
}
