/** GET /status: the same status as `crmsync status --json`. */
import type { FastifyInstance } from "fastify";
import { within } from "../ops/deadline.ts";
import { redisTrouble } from "../ops/redis-trouble.ts";

/** A status is reused for this long, so that frequent requests do not load Redis, ms. */
const CACHE_MS = 1000;

/** Redis must answer within this time, ms. */
const DEADLINE_MS = 2000;

export function serveStatus(app: FastifyInstance, read: () => Promise<object>): void {
  let last: { readonly at: number; readonly status: object } | undefined;
  let running: Promise<object> | undefined;

  async function readAndKeep(): Promise<object> {
    const status = await read();
    last = { at: performance.now(), status };
    return status;
  }

  /** All requests share one reading, however long it takes: a slow Redis is not asked twice. */
  async function current(): Promise<object> {
    if (last !== undefined && performance.now() - last.at <= CACHE_MS) return last.status;
    running ??= readAndKeep().finally(() => {
      running = undefined;
    });
    return running;
  }

  app.get("/status", async (_request, reply) => {
    try {
      return await within(DEADLINE_MS, current());
    } catch (reason) {
      const { says, runbook } = redisTrouble(reason);
      return reply.code(503).send({ error: `The state is not known: ${says}.`, runbook });
    }
  });
}
