import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Admission } from "./admission.ts";
import type { FaultOf, Faults, Strike } from "./faults.ts";
import {
  error,
  quotaHeaders,
  retryAfter,
  unauthorised,
  type ServiceResponse,
} from "./responses.ts";
import { pathOf, send } from "./service.ts";

type ActiveFault = NonNullable<Strike["fault"]>;

declare module "fastify" {
  interface FastifyRequest {
    /** A fault that strikes when the response is ready and the write is stored. */
    faultAfter: ActiveFault | null;
  }
}

/** Faults strike requests to the five operations, after admission has counted them. */
export function injectFaults(app: FastifyInstance, faults: Faults, admission: Admission): void {
  app.decorateRequest("faultAfter", null);

  app.addHook("onRequest", (request, reply, next) => {
    if (request.admitted === null) return next();
    const { delayMs, fault } = faults.strike(request.method, pathOf(request.originalUrl));
    const proceed = (): void => {
      if (fault === undefined) return next();
      if (strikesAfter(fault)) {
        request.faultAfter = fault;
        return next();
      }
      strikeNow(fault, request, reply);
    };
    // A delayed request does not keep a sandbox alive that is being closed.
    if (delayMs > 0) setTimeout(proceed, delayMs).unref();
    else proceed();
  });

  app.addHook("onSend", (request, reply, payload, done) => {
    const fault = request.faultAfter;
    request.faultAfter = null;
    switch (fault?.fault) {
      case undefined:
        return done(null, payload);
      case "error": {
        const { status, headers, body } = errorResponse(fault);
        reply.code(status).headers(headers ?? {});
        return done(null, body);
      }
      case "reset":
        return reset(request);
      case "truncate":
        return truncate(reply, typeof payload === "string" ? payload : "");
      case "hang":
      case "rate-limit":
      case "revoked":
      case "blocked":
        // A hang sends no response. The other three never strike after the request.
        return undefined;
    }
  });

  function strikeNow(fault: ActiveFault, request: FastifyRequest, reply: FastifyReply): void {
    switch (fault.fault) {
      case "error":
        return void send(reply, errorResponse(fault));
      case "rate-limit":
        return void send(reply, rateLimitResponse(fault, Date.now()));
      case "revoked":
        return void send(reply, unauthorised());
      case "blocked":
        return void send(reply, admission.blocked(request.raw));
      case "reset":
      case "truncate":
        return reset(request);
      case "hang":
    }
  }
}

function strikesAfter(fault: ActiveFault): boolean {
  return fault.fault === "truncate" || ("when" in fault && fault.when === "after");
}

function errorResponse({ status, body, headers }: FaultOf<"error">): ServiceResponse {
  const html = `<html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`;
  const bodies = {
    json: { type: "application/json", body: error(status, "Injected fault").body },
    html: { type: "text/html", body: html },
    empty: { type: "text/plain", body: "" },
  };
  const { type, body: text } = bodies[body];
  return { status, headers: { "content-type": type, ...headers }, body: text };
}

function rateLimitResponse(fault: FaultOf<"rate-limit">, nowMs: number): ServiceResponse {
  const resetAtMs = nowMs + fault.seconds * 1000;
  return error(429, "Too many requests - rate limit exceeded", {
    ...(fault.rateHeaders && quotaHeaders({ limit: 1000, remaining: 0, resetAtMs })),
    ...(fault.retryAfter !== "none" && {
      "retry-after": retryAfter(fault.retryAfter, resetAtMs, nowMs),
    }),
    ...fault.headers,
  });
}

function reset(request: FastifyRequest): void {
  request.raw.socket.resetAndDestroy();
}

function truncate(reply: FastifyReply, payload: string): void {
  const bytes = Buffer.from(payload);
  reply.hijack();
  reply.raw.writeHead(reply.statusCode, {
    "content-type": "application/json",
    "content-length": bytes.length,
  });
  reply.raw.write(bytes.subarray(0, bytes.length / 2), () => reply.raw.socket?.end());
}
