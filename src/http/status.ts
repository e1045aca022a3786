/** GET /status: the same status as `crmsync status --json`. */
import type { FastifyInstance } from "fastify";

/** A status is reused for this long, so that frequent requests do not load Redis, ms. */
const CACHE_MS = 1000;

/** Redis must answer within this time, ms. */
const DEADLINE_MS = 3000;

export function serveStatus(app: FastifyInstance, read: () => Promise<object>): void {
  let last: { at: number; status: Promise<object> } | undefined;
  app.get("/status", async (_request, reply) => {
    if (last === undefined || performance.now() - last.at > CACHE_MS) {
      last = { at: performance.now(), status: read() };
    }
    const late = AbortSignal.timeout(DEADLINE_MS);
    const away = new Promise<never>((_, reject) => {
      late.addEventListener("abort", () => reject(new Error("late")), { once: true });
    });
    try {
      return await Promise.race([last.status, away]);
    } catch {
      last = undefined;
      const error = "Redis does not answer, so the state is unknown";
      return reply.code(503).send({ error, runbook: "docs/runbook.md#crmsyncredisaway" });
    }
  });
}
