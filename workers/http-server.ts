/** An HTTP server of the daemon, with its limits. */
import { limitRate, type CountRequest } from "../src/http/rate-limit.ts";
import { createHttpServer } from "../src/http/server.ts";
import type { Overload } from "../src/ops/overload.ts";
import type { Runtime } from "./runtime.ts";

export interface HttpServer {
  readonly app: ReturnType<typeof createHttpServer>;
  readonly count: CountRequest;
  readonly refused: (why: Overload) => void;
}

export function createServer(
  { config, log, metrics, rarely }: Runtime,
  defect: (error: unknown) => void = (error) => log.error({ err: error }, "http.defect"),
): HttpServer {
  const refused = (reason: Overload) => {
    metrics.httpRefused.inc({ reason });
    rarely.warn({ reason }, "http.refused", reason);
  };
  const app = createHttpServer({
    defect,
    refused,
    trustedProxies: config.HTTP_TRUSTED_PROXIES,
  });
  const count = limitRate(app, config.HTTP_RATE_LIMIT, () => refused("rate"));
  return { app, count, refused };
}
