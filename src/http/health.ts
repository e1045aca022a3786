/** GET /livez and /readyz for the process manager, /metrics for Prometheus. */
import type { FastifyInstance } from "fastify";
import { within } from "../ops/deadline.ts";

/** Process managers wait a second for /readyz, ms. */
const READY_MS = 800;

export interface HealthPorts {
  /** Why this process cannot accept events now; empty when it can. */
  notReady(): Promise<readonly string[]>;
  /** Why no changes are sent now, for instance a denial; empty when they are. */
  notSending(): Promise<readonly string[]>;
}

export function serveHealth(app: FastifyInstance, ports: HealthPorts): void {
  // Any response proves that the event loop runs.
  app.get("/livez", async () => ({ status: "ok" }));

  app.get("/readyz", async (_request, reply) => {
    const [reasons, notSending] = await Promise.all([
      within(READY_MS, ports.notReady()).catch(() => ["redis does not answer"]),
      within(READY_MS, ports.notSending()).catch(() => [`not known within ${READY_MS} ms`]),
    ]);
    // Changes that cannot be sent are stored, so the process stays ready for more events.
    if (reasons.length === 0) return reply.send({ status: "ready", reasons, notSending });
    return reply.code(503).send({ status: "not ready", reasons, notSending: [] });
  });
}

/** @param read is given the header Accept, by which a scraper asks for a format. */
export function serveMetrics(
  app: FastifyInstance,
  read: (accept: string | undefined) => Promise<{ readonly type: string; readonly text: string }>,
): void {
  app.get("/metrics", async (request, reply) => {
    const { type, text } = await read(request.headers.accept);
    return reply.type(type).send(text);
  });
}
