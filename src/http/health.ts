/** GET /livez, /readyz and /metrics, for the process manager and Prometheus. */
import type { FastifyInstance } from "fastify";

export interface HealthPorts {
  /** Why this process cannot accept events now; empty when it can. */
  notReady(): Promise<readonly string[]>;
  /** Why no changes are sent now, for instance a denial; empty when they are. */
  notSending(): Promise<readonly string[]>;
  metrics(): Promise<string>;
  readonly metricsType: string;
}

export function serveHealth(app: FastifyInstance, ports: HealthPorts): void {
  // Any response proves that the event loop runs.
  app.get("/livez", async () => ({ status: "ok" }));

  app.get("/readyz", async (_request, reply) => {
    const reasons = await ports.notReady();
    const ready = reasons.length === 0;
    // Changes that cannot be sent are stored, so the process stays ready for more events.
    const notSending = ready ? await ports.notSending() : [];
    const status = ready ? "ready" : "not ready";
    return reply.code(ready ? 200 : 503).send({ status, reasons, notSending });
  });

  app.get("/metrics", async (_request, reply) =>
    reply.type(ports.metricsType).send(await ports.metrics()),
  );
}
