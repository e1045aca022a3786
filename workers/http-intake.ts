/** HTTP intake: /events, the webhooks and their description, on the daemon's Redis and configuration. */
import { settingOf } from "../src/config.ts";
import type { CrmConnector, WebhookEvent } from "../src/crm/connector.ts";
import { CONNECTORS } from "../src/crm/connectors.ts";
import { jsonEndpoint } from "../src/crm/json-webhook.ts";
import { splitSubject } from "../src/event/crm-event.ts";
import { serveEvents } from "../src/http/events.ts";
import { serveOpenApi } from "../src/http/openapi.ts";
import { createIntakeGuard, type IntakeGuard } from "../src/http/intake-guard.ts";
import type { IntakePorts } from "../src/http/store-events.ts";
import { serveWebhooks, WEBHOOK_OUTCOMES } from "../src/http/webhooks.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import { needsRelated } from "../src/sync/mapped.ts";
import type { HttpServer } from "./http-server.ts";
import { canFetch } from "./request-fetch.ts";
import type { Runtime } from "./runtime.ts";

type App = HttpServer["app"];

/** Why this process is not ready yet: then its start goes on, or it ends because its key is wrong. */
export const KEY_NOT_CHECKED = "STATE_KEY was not compared with Redis yet";

export function serveHttpIntake({ app, count, refused }: HttpServer, runtime: Runtime): void {
  const { config, mapping, metrics, version } = runtime;
  const guard = createIntakeGuard(app, count, refused);
  const ports = intakePorts(runtime);
  app.addHook("onResponse", async (request, reply) => {
    metrics.countIntakeResponse(request.routeOptions.url, reply.statusCode);
  });
  traceRequests(app, runtime);
  serveEvents(app, guard, {
    ...ports,
    token: settingOf(config, "INGEST_TOKEN"),
    secret: settingOf(config, "INGEST_SECRET"),
    open: config.INGEST_AUTH !== undefined,
  });
  void app.register(async (scope) => {
    scope.addHook("onRequest", async (request) => count(request, undefined));
    const crms = CONNECTORS.map(({ name }) => name);
    const tools = mapping.webhooks.map(({ name }) => name);
    serveOpenApi(scope, version, crms, tools);
  });
  serveCrmWebhooks(app, runtime, guard, ports);
}

function intakePorts({ clock, intakeClient, keyring, mapping, rarely }: Runtime): IntakePorts {
  const contentHash = () => {
    // No process could open what is sealed with a wrong key.
    if (!keyring.isOpen) throw new Error(KEY_NOT_CHECKED);
    return keyring.contentHash();
  };
  return {
    now: () => clock.latest(),
    ids: mapping.ids,
    push: async (events) => intakeClient.push(events, clock.latest(), await contentHash()),
    seen: async (events) => intakeClient.seen(events, await contentHash()),
    isRemembered: (request) => intakeClient.isRemembered(request),
    remember: (request, forSeconds) => intakeClient.remember(request, forSeconds),
    unavailable: (error) => rarely.warn({ err: error }, "intake.unavailable"),
  };
}

function serveCrmWebhooks(
  app: App,
  runtime: Runtime,
  guard: IntakeGuard,
  ports: IntakePorts,
): void {
  const { config, log, mapping, metrics, rarely } = runtime;
  const connectors = CONNECTORS.map((connector) => readingRelated(connector, mapping));
  const endpoints = [...connectors, ...mapping.webhooks.map(jsonEndpoint)];
  const secret = (name: string) => {
    const named = config.namedSecret(name);
    return named === undefined ? settingOf(config, name) : () => named.value();
  };
  for (const { name: webhook, secretName } of endpoints) {
    // No request of a CRM that is not configured is accepted.
    if (secretName !== undefined && secret(secretName) === undefined) continue;
    for (const outcome of WEBHOOK_OUTCOMES) metrics.webhooks.inc({ webhook, outcome }, 0);
    metrics.webhookGaps.inc({ webhook }, 0);
  }
  serveWebhooks(app, endpoints, guard, {
    ...ports,
    secret,
    canFetch: (name) => canFetch(config, name),
    publicUrl: config.WEBHOOKS_PUBLIC_URL,
    ended(webhook, outcome, why) {
      metrics.webhooks.inc({ webhook, outcome });
      if (outcome === "stored") return;
      rarely.warn({ webhook, outcome, why }, "webhook.failed", `${webhook} ${outcome}`);
    },
    undated(webhook) {
      rarely.warn({ webhook }, "webhook.undated", webhook);
      void runtime.sources.isUndated(webhook, runtime.clock.now()).catch(() => {});
    },
    changesLost(webhook, gaps) {
      metrics.webhookGaps.inc({ webhook }, gaps);
      log.error({ webhook, gaps }, "webhook.changes_lost");
      void runtime.sources.hasLost(webhook, runtime.clock.now()).catch(() => {});
    },
  });
}

/** The record of a webhook is read from the CRM where others belong to it: the webhook has it alone. */
const readingRelated = (connector: CrmConnector, mapping: Mapping): CrmConnector => ({
  ...connector,
  toEvents(request, canFetch) {
    const translated = connector.toEvents(request, canFetch);
    const isAlone = ({ data, subject, type }: WebhookEvent) =>
      canFetch &&
      data?.record !== undefined &&
      type !== "crm.record.deleted" &&
      needsRelated(mapping, splitSubject(subject).object);
    const events = translated.events.map((event) =>
      isAlone(event) ? { ...event, data: { fetch: connector.name } } : event,
    );
    return { ...translated, events };
  },
});

/** A request that brings events starts a trace once its body has been read. */
function traceRequests(app: App, { tracing }: Runtime): void {
  const ends = new WeakMap<object, (status: number) => void>();
  app.addHook("preHandler", (request, _reply, done) => {
    const { method, url } = request.routeOptions;
    if (request.method !== "POST" || url === undefined) return done();
    ends.set(request, tracing.serve(String(method), url, done));
  });
  app.addHook("onResponse", async (request, reply) => {
    ends.get(request)?.(reply.statusCode);
  });
}
