import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { faultSchema, type Faults } from "./faults.ts";
import { createHttpServer } from "./http-server.ts";
import { error, json, type ServiceResponse } from "./responses.ts";
import type { RequestLog } from "./request-log.ts";
import { send } from "./service.ts";

/** The server where tests arm faults. It needs no token and must listen on loopback only. */
export function createFaultServer(faults: Faults, log: RequestLog): FastifyInstance {
  const app = createHttpServer(() => undefined);
  app.post("/faults", (request, reply) => send(reply, arm(faults, request.body)));
  app.get("/faults", (_request, reply) => send(reply, json(200, { faults: faults.list() })));
  app.delete("/faults", (_request, reply) => {
    faults.disarmAll();
    return send(reply, json(200, { faults: [] }));
  });
  app.delete<{ Params: { id: string } }>("/faults/:id", (request, reply) => {
    const found = faults.disarm(Number(request.params.id));
    return send(reply, found ? json(200, { faults: faults.list() }) : error(404, "No such fault"));
  });
  app.get("/requests", (_request, reply) => send(reply, json(200, log.counts())));
  app.delete("/requests", (_request, reply) => {
    log.resetCounts();
    return send(reply, json(200, log.counts()));
  });
  return app;
}

function arm(faults: Faults, body: unknown): ServiceResponse {
  const parsed = faultSchema.safeParse(body);
  if (!parsed.success) return error(400, `Not a valid fault: ${z.prettifyError(parsed.error)}`);
  return json(201, faults.arm(parsed.data));
}
