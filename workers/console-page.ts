/** GET /console on the daemon's stores. */
import { serveConsole } from "../src/console/serve-console.ts";
import type { OpsTokens } from "../src/people/tokens.ts";
import { limitLogins } from "../src/http/rate-limit.ts";
import { sharedReading } from "../src/ops/shared-reading.ts";
import { takeReadings } from "../src/status/readings.ts";
import type { HttpServer } from "./http-server.ts";
import type { Runtime } from "./runtime.ts";

export function serveConsolePage(
  app: HttpServer["app"],
  { count, refused }: Pick<HttpServer, "count" | "refused">,
  runtime: Runtime,
  tokens: OpsTokens,
): void {
  const { endedSessions, log, statusRedis, version } = runtime;
  const freshReadings = () => takeReadings(runtime, statusRedis);
  serveConsole(app, {
    stores: runtime,
    version,
    mapping: runtime.mapping,
    tokens,
    count,
    countLogin: limitLogins(app, () => refused("rate")),
    isEnded: (id) => endedSessions.has(statusRedis, id),
    readings: sharedReading(freshReadings),
    freshReadings,
    defect: (error) => log.error({ err: error }, "http.defect"),
  });
}
