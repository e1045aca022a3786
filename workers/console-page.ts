/** GET /console on the daemon's stores. */
import { serveConsole } from "../src/people/console/serve-console.ts";
import type { OpsTokens } from "../src/base/person.ts";
import { limitExports, limitLogins } from "../src/intake/http/rate-limit.ts";
import { sharedReading } from "../src/base/shared-reading.ts";
import { certifyInChild } from "./command-child.ts";
import type { HttpServer } from "./http-intake.ts";
import type { Uses } from "./parts.ts";

export type ConsoleParts = Uses<
  | "endedSessions"
  | "log"
  | "mapping"
  | "provider"
  | "rarely"
  | "readings"
  | "statusRedis"
  | "stores"
  | "version"
>;

export function serveConsolePage(
  app: HttpServer["app"],
  { count, refused }: Pick<HttpServer, "count" | "refused">,
  parts: ConsoleParts,
  tokens: OpsTokens,
): void {
  const { endedSessions, log, mapping, provider, rarely, readings, stores } = parts;
  const { statusRedis, version } = parts;
  serveConsole(app, {
    stores,
    version,
    mapping,
    tokens,
    provider,
    count,
    countLogin: limitLogins(app, () => refused("rate")),
    countExport: limitExports(app, () => refused("rate")),
    isEnded: (session) => endedSessions.has(statusRedis, session),
    certify: certifyInChild,
    readings: sharedReading(readings),
    freshReadings: readings,
    log(fields, event) {
      // Whoever is refused may come again at once.
      if (event === "console.refused") rarely.warn(fields, event, String(fields.kind));
      else log.info(fields, event);
    },
    defect: (error) => log.error({ err: error }, "http.defect"),
  });
}
