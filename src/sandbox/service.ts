import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { BusinessRelations } from "./business-relations.ts";
import type { Client } from "./directory.ts";
import type { Door } from "./admission.ts";
import { findTarget, isServicePath } from "./operations.ts";
import type { BusinessRelationsOperation, Target } from "./operations.ts";
import { BODY_MAX_BYTES, bodyTooLarge, error, quotaHeaders, tooManyRequests } from "./replies.ts";
import type { Reply, RetryAfterForm } from "./replies.ts";
import type { RequestLog } from "./request-log.ts";

/** Every address of the service is routed here: its own router reads the path as it was sent. */
const SERVICE_ROUTE = "/service";

declare module "fastify" {
  interface FastifyRequest {
    /** Set for requests to the service, whether they are let in or not. */
    asked: Asked | null;
    /** Set for requests to one of the five operations that were let in. */
    visit: Visit | null;
  }
}
interface Asked {
  readonly operation: string;
  /** By the clock that never jumps. */
  readonly sinceMs: number;
  client: Client | undefined;
}
export interface Visit {
  readonly client: Client;
  readonly operation: BusinessRelationsOperation;
  readonly crmCode: string;
}

export interface ServiceOptions {
  readonly door: Door;
  readonly relations: BusinessRelations;
  readonly log: RequestLog;
  /** Whether the quota's headers come with every answer or with a 429 only. */
  readonly rateHeaders: "429" | "all";
  readonly retryAfter: RetryAfterForm;
}

/** `/v1.1/…`, as Fastify sees it: always the same address. */
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
  const { door, relations, log } = options;
  app.decorateRequest("asked", null);
  app.decorateRequest("visit", null);

  // Everything that needs no body is answered before one is read.
  app.addHook("onRequest", (request, reply, next) => {
    const path = pathOf(request.originalUrl);
    if (!isServicePath(path)) return next();
    const target = findTarget(request.method, path);
    const operation = target.kind === "operation" ? target.operation : target.kind;
    const asked: Asked = { operation, sinceMs: performance.now(), client: undefined };
    request.asked = asked;
    // Also for answers that a fault cuts off, of which Fastify's own hook does not hear.
    reply.raw.once("close", () => logRequest(log, asked, request, reply));
    const refused = enter(request, reply, target);
    if (refused === undefined) return next();
    send(reply, refused);
  });

  app.all(SERVICE_ROUTE, (request, reply) => {
    const { client, operation, crmCode } = request.visit!;
    const handle: Record<BusinessRelationsOperation, () => Reply> = {
      "schema-config": () => relations.schemaConfig(client),
      list: () => relations.list(client, queryOf(request.originalUrl)),
      get: () => relations.get(client, crmCode),
      create: () => relations.create(client, request.body),
      update: () => relations.update(client, crmCode, request.body),
    };
    send(reply, handle[operation]());
    return reply;
  });

  function enter(request: FastifyRequest, reply: FastifyReply, target: Target): Reply | undefined {
    reply.header("cache-control", "no-store");
    const admission = door.admit(request.raw);
    request.asked!.client = admission.client;
    if (!admission.admitted) return admission.reply;
    const nowMs = Date.now();
    const verdict = door.count(admission.client, nowMs);
    if (!verdict.granted) return tooManyRequests(verdict, options.retryAfter, nowMs);
    if (options.rateHeaders === "all") reply.headers(quotaHeaders(verdict));
    if (target.kind !== "operation") return refusal(target, request.method);
    // Fastify would cut the connection, and a client that is still sending would not get the answer.
    if (Number(request.headers["content-length"] ?? 0) > BODY_MAX_BYTES) return bodyTooLarge();
    const { operation, crmCode } = target;
    request.visit = { client: admission.client, operation, crmCode };
    return undefined;
  }
}

function logRequest(
  log: RequestLog,
  { operation, sinceMs, client }: Asked,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const ms = performance.now() - sinceMs;
  log.record(client?.tenantId, operation, {
    at: new Date(Date.now() - ms).toISOString(),
    method: request.method,
    path: pathOf(request.originalUrl),
    status: reply.raw.writableFinished ? reply.raw.statusCode : null,
    ms: Math.round(ms * 10) / 10,
  });
}

function refusal(target: Exclude<Target, { kind: "operation" }>, method: string): Reply {
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

export function send(reply: FastifyReply, { status, headers, body }: Reply): void {
  void reply
    .code(status)
    .headers(headers ?? {})
    .type("application/json")
    .send(body);
}

export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start === -1 ? "" : url.slice(start + 1));
}
