import type { OutgoingHttpHeaders } from "node:http";
import type { QuotaState } from "./quota.ts";

/** A response, before it is sent. */
export interface ServiceResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  /** JSON text. */
  readonly body: string;
}

/** Longest `error` text; it ends with the number of problems that did not fit. */
const ERROR_TEXT_MAX = 2000;

export function json(
  status: number,
  body: unknown,
  headers: OutgoingHttpHeaders = {},
): ServiceResponse {
  return { status, headers, body: JSON.stringify(body) };
}

/** Spec: ErrorResponse, with the HTTP status as its code. */
export function error(
  status: number,
  text: string,
  headers?: OutgoingHttpHeaders,
): ServiceResponse {
  return json(status, { error: text, code: status }, headers);
}

/** One ErrorResponse for several problems. */
export function problems(status: number, summary: string, all: readonly string[]): ServiceResponse {
  let text = summary;
  for (const [index, problem] of all.entries()) {
    const next = `${text}${index === 0 ? ": " : "; "}${problem}`;
    if (next.length > ERROR_TEXT_MAX) {
      return error(status, `${text}; and ${all.length - index} more problems`);
    }
    text = next;
  }
  return error(status, text);
}

/** The spec gives no limit for bodies; a business relation is far smaller than this. */
export const BODY_MAX_BYTES = 1_048_576;

export function bodyTooLarge(): ServiceResponse {
  return error(413, `The body is larger than ${BODY_MAX_BYTES} bytes`);
}

/** Source: spec, "Authentication" 6. */
export function unauthorised(): ServiceResponse {
  return error(401, "Unauthorized - Missing or invalid token", { "www-authenticate": "Bearer" });
}

/** Source: spec, "Errors", 403. */
export function forbidden(ip: string, now: Date): ServiceResponse {
  return json(403, {
    error: "FORBIDDEN",
    message: "The source address is not on the client's allow-list",
    code: "IP_WHITELIST_BLOCKED",
    ip,
    timestamp: now.toISOString(),
  });
}

export function quotaHeaders(state: QuotaState): OutgoingHttpHeaders {
  return {
    "x-ratelimit-limit": String(state.limit),
    "x-ratelimit-remaining": String(state.remaining),
    "x-ratelimit-reset": String(Math.ceil(state.resetAtMs / 1000)),
  };
}

export type RetryAfterFormat = "seconds" | "date";

/** Rounded up to whole seconds, so that a client that waits this long is not too early. */
export function retryAfter(format: RetryAfterFormat, retryAtMs: number, nowMs: number): string {
  if (format === "seconds") return String(Math.max(1, Math.ceil((retryAtMs - nowMs) / 1000)));
  return new Date(Math.ceil(retryAtMs / 1000) * 1000).toUTCString();
}

/** Source: spec, "Limits"; it does not specify the body. */
export function tooManyRequests(
  state: QuotaState & { readonly retryAtMs: number },
  format: RetryAfterFormat,
  nowMs: number,
): ServiceResponse {
  return error(429, "Too many requests - rate limit exceeded", {
    ...quotaHeaders(state),
    "retry-after": retryAfter(format, state.retryAtMs, nowMs),
  });
}
