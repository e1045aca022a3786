/** The doors through which events come by HTTP, on the daemon's Redis and configuration. */
import { settingOf } from "../src/config.ts";
import { serveEvents } from "../src/http/events.ts";
import type { IntakePorts } from "../src/http/take-events.ts";
import { serveOpenApi } from "../src/http/openapi.ts";
import type { createHttpServer } from "../src/http/server.ts";
import { serveWebhooks, WEBHOOK_OUTCOMES, CONNECTORS } from "../src/http/webhooks.ts";
import { canFetch } from "./fetch.ts";
import type { Runtime } from "./runtime.ts";

export function serveHttpIntake(
  app: ReturnType<typeof createHttpServer>,
  runtime: Runtime,
  version: string,
): void {
  const { config, intakeClient, log, metrics, throttle } = runtime;
  for (const { name: webhook } of CONNECTORS) {
    for (const outcome of WEBHOOK_OUTCOMES) metrics.webhooks.inc({ webhook, outcome }, 0);
    metrics.webhookGaps.inc({ webhook }, 0);
  }
  const ports: IntakePorts = {
    push: (events) => intakeClient.push(events),
    seen: (keys) => intakeClient.seen(keys),
    claim: (request, forSeconds) => intakeClient.claim(request, forSeconds),
    unclaim: (request) => intakeClient.unclaim(request),
    unavailable: (error) =>
      throttle("ingest", (held) => log.warn({ err: error, held }, "intake.unavailable")),
  };
  serveEvents(app, {
    ...ports,
    token: settingOf(config, "INGEST_TOKEN"),
    secret: settingOf(config, "INGEST_SECRET"),
    open: config.INGEST_AUTH === "none",
  });
  serveOpenApi(
    app,
    version,
    CONNECTORS.map(({ name }) => name),
  );
  serveWebhooks(app, {
    ...ports,
    secret: (name) => settingOf(config, name),
    canFetch: (name) => canFetch(config, name),
    publicUrl: config.WEBHOOKS_PUBLIC_URL,
    ended(webhook, outcome, why) {
      metrics.webhooks.inc({ webhook, outcome });
      if (outcome === "taken") return;
      throttle(`webhook.${webhook}`, (held) =>
        log.warn({ webhook, outcome, why, held }, "webhook.failed"),
      );
    },
    lost(webhook, gaps) {
      metrics.webhookGaps.inc({ webhook }, gaps);
      log.error({ webhook, gaps }, "webhook.changes_lost");
    },
  });
}
