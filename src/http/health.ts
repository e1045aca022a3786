/** GET /livez, /readyz and /metrics: for the process manager and for Prometheus. */
import type { FastifyInstance } from "fastify";

export interface HealthPorts {
  /** Why this process cannot take events now; empty when it can. */
  notReady(): Promise<readonly string[]>;
  /** Why what it takes is not sent now, a door that the service has closed; empty when it is. */
  notSending(): Promise<readonly string[]>;
  metrics(): Promise<string>;
  readonly metricsType: string;
}

export function serveHealth(app: FastifyInstance, ports: HealthPorts): void {
  // That this answers at all is the proof: the event loop turns.
  app.get("/livez", async () => ({ status: "ok" }));

  app.get("/readyz", async (_request, reply) => {
    const reasons = await ports.notReady();
    const ready = reasons.length === 0;
    // What is not sent is kept, so senders go on: this is told, but turns nobody away.
    const notSending = ready ? await ports.notSending() : [];
    const status = ready ? "ready" : "not ready";
    return reply.code(ready ? 200 : 503).send({ status, reasons, notSending });
  });

  app.get("/metrics", async (_request, reply) =>
    reply.type(ports.metricsType).send(await ports.metrics()),
  );
}
