/** Limits the requests of each sender, per process. */
import rateLimit, { normalizeIP } from "@fastify/rate-limit";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { RATE_WINDOW_MS, Refusal } from "./limits.ts";

/** Senders that are counted at once; above it, the one seen least recently starts again. */
const MAX_SENDERS = 10_000;

/**
 * Counts a request. A sender whose credentials are verified has a count of its own, which others cannot
 * use up. All others share one count per address (IPv6: per network of 64 bits).
 * @param status how a request above the limit is answered.
 * @throws Refusal when the sender was too fast.
 */
export type CountRequest = (
  request: FastifyRequest,
  sender: string | undefined,
  status?: 429 | 503,
) => Promise<void>;

/** @param refused called for each request above the limit. */
export function limitRate(
  app: FastifyInstance,
  perSecond: number,
  refused: () => void,
): CountRequest {
  const senders = new WeakMap<FastifyRequest, string>();
  let limit: ReturnType<FastifyInstance["createRateLimit"]> | undefined;
  void app.register(rateLimit, { global: false, cache: MAX_SENDERS }).after(() => {
    limit = app.createRateLimit({
      max: Math.ceil((perSecond * RATE_WINDOW_MS) / 1000),
      timeWindow: RATE_WINDOW_MS,
      keyGenerator: (request) => senders.get(request) ?? normalizeIP(request.ip),
    });
  });
  return async (request, sender, status = 429) => {
    if (sender !== undefined) senders.set(request, `sender ${sender}`);
    const result = await limit?.(request);
    if (result === undefined || result.isAllowed || !result.isExceeded) return;
    refused();
    throw new Refusal(
      status,
      "too many requests of this sender (HTTP_RATE_LIMIT); wait for the seconds of Retry-After, and send more events in one request",
      { "retry-after": String(Math.max(1, result.ttlInSeconds)) },
    );
  };
}

/** Acts of one kind, of one address or person, by one process. */
const ACTS = 10;
const ACTS_WINDOW_MS = 60_000;

/** @param app on which `limitRate` was called before; key: whose acts count together. @throws Refusal above the limit. */
function limitActs(app: FastifyInstance, refused: () => void, what: string) {
  const keys = new WeakMap<FastifyRequest, string>();
  const limit = app.createRateLimit({
    max: ACTS,
    timeWindow: ACTS_WINDOW_MS,
    keyGenerator: (request) => `${what} ${keys.get(request)}`,
  });
  return async (request: FastifyRequest, key: string): Promise<void> => {
    keys.set(request, key);
    const result = await limit(request);
    if (result.isAllowed || !result.isExceeded) return;
    refused();
    const seconds = Math.max(1, result.ttlInSeconds);
    throw new Refusal(429, `Too many ${what}: wait ${seconds} s.`, {
      "retry-after": String(seconds),
    });
  };
}

/**
 * Counts a try to log in, of an address (IPv6: of its network of 64 bits). Right tokens count too: an
 * answer beyond the limit says nothing about the token.
 */
export function limitLogins(app: FastifyInstance, refused: () => void) {
  const count = limitActs(app, refused, "tries to log in from this address");
  return (request: FastifyRequest) => count(request, normalizeIP(request.ip));
}

/** Counts an export of the audit trail, of a person: each has a line in it. */
export const limitExports = (app: FastifyInstance, refused: () => void) =>
  limitActs(app, refused, "exports within a minute");
