/** GET /status: how everything stands, as JSON for people and scripts. */
import type { FastifyInstance } from "fastify";

/** An answer is given again for this long, so that nobody burdens Redis by asking, ms. */
const SAME_FOR_MS = 1000;

/** Redis that does not answer by then is away, ms. */
const DEADLINE_MS = 3000;

export function serveStatus(app: FastifyInstance, read: () => Promise<object>): void {
  let last: { at: number; status: Promise<object> } | undefined;
  app.get("/status", async (_request, reply) => {
    if (last === undefined || performance.now() - last.at > SAME_FOR_MS) {
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
      const error = "Redis does not answer, so the state is not known";
      return reply.code(503).send({ error, runbook: "docs/runbook.md#crmsyncredisaway" });
    }
  });
}
