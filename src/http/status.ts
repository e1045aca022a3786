/** GET /status: the same status as `crmsync status --json`. */
import type { FastifyInstance } from "fastify";
import { redisTrouble } from "../ops/redis-trouble.ts";
import { sharedReading } from "../ops/shared-reading.ts";

export function serveStatus(app: FastifyInstance, read: () => Promise<object>): void {
  const current = sharedReading(read);
  app.get("/status", async (_request, reply) => {
    try {
      return await current();
    } catch (reason) {
      const { says, runbook } = redisTrouble(reason);
      return reply.code(503).send({ error: `The state is not known: ${says}.`, runbook });
    }
  });
}
