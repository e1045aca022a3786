/** An HTTP server of the daemon, and its intake: /events, the webhooks and their description. */
import { settingOf } from "../src/base/config.ts";
import type { CrmConnector, WebhookEvent } from "../src/intake/crm/connector.ts";
import { CONNECTORS } from "../src/intake/crm/connectors.ts";
import { jsonEndpoint } from "../src/intake/crm/json-webhook.ts";
import { splitSubject } from "../src/core/event/crm-event.ts";
import { serveEvents } from "../src/intake/http/events.ts";
import { serveOpenApi } from "../src/intake/http/openapi.ts";
import { createIntakeGuard, type IntakeGuard } from "../src/intake/http/intake-guard.ts";
import type { IntakePorts } from "../src/intake/http/store-events.ts";
import { serveWebhooks, WEBHOOK_OUTCOMES } from "../src/intake/http/webhooks.ts";
import { recordIds } from "../src/intake/mapping/record-ids.ts";
import type { Mapping } from "../src/intake/mapping/mapping.ts";
import type { MappingWebhook } from "../src/intake/mapping/webhooks/webhook.ts";
import { needsRelated } from "../src/core/sync/mapped.ts";
import type { Uses } from "./parts.ts";
import { canFetch } from "../src/intake/crm/read-whole.ts";
import { limitRate, type CountRequest } from "../src/intake/http/rate-limit.ts";
import { createHttpServer } from "../src/intake/http/server.ts";
import type { Overload } from "../src/base/overload.ts";

export type HttpIntakeParts = Uses<
  | "clock"
  | "config"
  | "intakeClient"
  | "keyring"
  | "log"
  | "mapping"
  | "mappingGate"
  | "metrics"
  | "rarely"
  | "sources"
  | "tracing"
  | "version"
>;

export interface HttpServer {
  readonly app: ReturnType<typeof createHttpServer>;
  readonly count: CountRequest;
  readonly refused: (why: Overload) => void;
}

/** With its limits. */
export function createServer(
  { config, log, metrics, rarely }: Uses<"config" | "log" | "metrics" | "rarely">,
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

type App = HttpServer["app"];

/** Why this process is not ready yet: then its start goes on, or it ends because its key is wrong. */
export const KEY_NOT_CHECKED = "STATE_KEY was not compared with Redis yet";

export function serveHttpIntake({ app, count, refused }: HttpServer, parts: HttpIntakeParts): void {
  const { config, mapping, metrics, version } = parts;
  const guard = createIntakeGuard(app, count, refused);
  const ports = intakePorts(parts);
  app.addHook("onResponse", async (request, reply) => {
    metrics.countIntakeResponse(request.routeOptions.url, reply.statusCode);
  });
  traceRequests(app, parts);
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
  serveCrmWebhooks(app, parts, guard, ports);
}

function intakePorts({
  clock,
  intakeClient,
  keyring,
  mapping,
  rarely,
}: HttpIntakeParts): IntakePorts {
  const contentHash = () => {
    // No process could open what is sealed with a wrong key.
    if (!keyring.isOpen) throw new Error(KEY_NOT_CHECKED);
    return keyring.contentHash();
  };
  return {
    now: () => clock.latest(),
    ids: recordIds(mapping),
    push: async (events) => intakeClient.push(events, clock.latest(), await contentHash()),
    seen: async (events) => intakeClient.seen(events, await contentHash()),
    isRemembered: (request) => intakeClient.isRemembered(request),
    remember: (request, forSeconds) => intakeClient.remember(request, forSeconds),
    unavailable: (error) => rarely.warn({ err: error }, "intake.unavailable"),
  };
}

function serveCrmWebhooks(
  app: App,
  parts: HttpIntakeParts,
  guard: IntakeGuard,
  ports: IntakePorts,
): void {
  const { config, log, mapping, metrics, rarely } = parts;
  const connectors = CONNECTORS.map((connector) => readingRelated(connector, mapping));
  const endpoints = [...connectors, ...approvedWebhooks(parts).map(jsonEndpoint)];
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
      void parts.sources.isUndated(webhook, parts.clock.now()).catch(() => {});
    },
    changesLost(webhook, gaps) {
      metrics.webhookGaps.inc({ webhook }, gaps);
      log.error({ webhook, gaps }, "webhook.changes_lost");
      void parts.sources.hasLost(webhook, parts.clock.now()).catch(() => {});
    },
  });
}

/** What a body means is said by the mapping, too: until it is approved, senders must send again. */
const approvedWebhooks = ({ mapping, mappingGate }: HttpIntakeParts): MappingWebhook[] =>
  mapping.webhooks.map((webhook) => ({
    ...webhook,
    translate: async (content) =>
      (await mappingGate.isOpen().catch(() => false))
        ? webhook.translate(content)
        : { kind: "unavailable", why: "the mapping cannot be used now; send it again" },
  }));

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
function traceRequests(app: App, { tracing }: HttpIntakeParts): void {
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
