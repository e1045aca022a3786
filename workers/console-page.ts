/** GET /console on the daemon's stores. */
import { serveConsole } from "../src/console/serve-console.ts";
import type { OpsTokens } from "../src/people/person.ts";
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
  const { endedSessions, log, provider, rarely, statusRedis, version } = runtime;
  const freshReadings = () => takeReadings(runtime, statusRedis);
  serveConsole(app, {
    stores: runtime,
    version,
    mapping: runtime.mapping,
    tokens,
    provider,
    count,
    countLogin: limitLogins(app, () => refused("rate")),
    isEnded: (session) => endedSessions.has(statusRedis, session),
    readings: sharedReading(freshReadings),
    freshReadings,
    log(fields, event) {
      // Whoever is refused may come again at once.
      if (event === "console.refused") rarely.warn(fields, event, String(fields.kind));
      else log.info(fields, event);
    },
    defect: (error) => log.error({ err: error }, "http.defect"),
  });
}
