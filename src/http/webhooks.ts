/** POST /webhooks/<name>: the webhooks of the CRMs, one address per connector. */
import { createHash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { CrmConnector, WebhookEvent, WebhookRequest } from "../crm/connector.ts";
import { CONNECTORS } from "../crm/connectors.ts";
import { WebhookBodyError } from "../crm/webhook-body.ts";
import { parseEvent } from "../event/crm-event.ts";
import { secretsOf, type SecretText } from "../ops/secrets.ts";
import { RETRY_AFTER_S, storeEvents, type IntakePorts, type RequestClaim } from "./store-events.ts";

/** Room for a hundred outbound messages with every field filled. */
const BODY_LIMIT = 4 * 1024 * 1024;

/** How a webhook request ended: 200, 401, 400, 409 or 503. */
export const WEBHOOK_OUTCOMES = [
  "stored",
  "unauthorised",
  "bad_body",
  "copy",
  "unavailable",
] as const;
export type WebhookOutcome = (typeof WEBHOOK_OUTCOMES)[number];

export interface WebhookPorts extends IntakePorts {
  /** The secret in this variable; while it is undefined, every request is answered 401. */
  secret(name: string): SecretText | undefined;
  /** Whether records of this CRM can be fetched. */
  canFetch(crm: string): boolean;
  /** Address of this server as senders call it, when a proxy stands in front of it. */
  readonly publicUrl: string | undefined;
  ended(crm: string, outcome: WebhookOutcome, why: string): void;
  /** Called when a CRM reports that it lost changes. */
  changesLost(crm: string, gaps: number): void;
}

export function serveWebhooks(app: FastifyInstance, ports: WebhookPorts): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "*",
      { parseAs: "buffer", bodyLimit: BODY_LIMIT },
      (_request, body, done) => done(null, body),
    );
    for (const connector of CONNECTORS) {
      const take = async (request: FastifyRequest, reply: FastifyReply) =>
        takeRequest(connector, request, reply, ports);
      scope.post(`/webhooks/${connector.name}`, take);
      scope.post(`/webhooks/${connector.name}/*`, take);
    }
  });
}

async function takeRequest(
  connector: CrmConnector,
  received: FastifyRequest,
  reply: FastifyReply,
  ports: WebhookPorts,
): Promise<void> {
  const { name, secretName } = connector;
  const end = async (status: number, outcome: WebhookOutcome, why: string) => {
    ports.ended(name, outcome, why);
    await reply.code(status).send({ error: why });
  };
  const secrets = secretsOf(ports.secret(secretName));
  if (secrets.length === 0) {
    return end(
      401,
      "unauthorised",
      `${secretName} is not configured, so no request is accepted here`,
    );
  }
  const request = requestOf(received, name, ports.publicUrl);
  const verified = connector.verify(request, secrets);
  if (!verified.ok) return end(401, "unauthorised", verified.why);

  let events: readonly WebhookEvent[];
  let gaps: number;
  try {
    ({ events, gaps = 0 } = connector.toEvents(request, ports.canFetch(name)));
    checkEvents(events, ports.now());
  } catch (error) {
    if (!(error instanceof WebhookBodyError)) throw error;
    return end(400, "bad_body", error.message);
  }
  if (gaps > 0) ports.changesLost(name, gaps);
  const result = await storeEvents(events, claimOf(connector, verified.requestKey), ports);
  switch (result.kind) {
    case "unavailable":
      void reply.header("retry-after", String(RETRY_AFTER_S));
      return end(
        503,
        "unavailable",
        "events cannot be stored now and none was stored; send them again",
      );
    case "copy":
      return end(409, "copy", "this signed request was accepted before");
    case "stored": {
      ports.ended(name, "stored", "");
      const { contentType, body } = acknowledgementOf(connector, request);
      await reply
        .code(200)
        .type(contentType)
        .send(body ?? JSON.stringify({ accepted: result.accepted, duplicates: result.duplicates }));
    }
  }
}

function claimOf(
  connector: CrmConnector,
  requestKey: string | undefined,
): RequestClaim | undefined {
  if (requestKey === undefined) return undefined;
  const hash = createHash("sha256").update(requestKey).digest("base64url");
  return { key: `${connector.name}:${hash}`, forSeconds: connector.rememberForS };
}

/** @throws WebhookBodyError when a connector made an invalid event, since the body caused it. */
function checkEvents(events: readonly WebhookEvent[], now: number): void {
  for (const event of events) {
    const parsed = parseEvent(event, now);
    if (parsed.ok) continue;
    const [problem] = parsed.problems;
    throw new WebhookBodyError(
      `${problem?.field ?? "an event"} ${problem?.rule ?? "is not usable"}`,
    );
  }
}

function acknowledgementOf(connector: CrmConnector, request: WebhookRequest) {
  const isXml = /xml/i.test(request.headers["content-type"] ?? "");
  const json = { contentType: "application/json", body: undefined };
  return connector.acknowledgement !== undefined && isXml ? connector.acknowledgement : json;
}

function requestOf(
  received: FastifyRequest,
  name: string,
  publicUrl: string | undefined,
): WebhookRequest {
  const url = new URL(received.url, "http://localhost");
  const headers = Object.fromEntries(
    Object.entries(received.headers).map(([key, value]) => [
      key,
      Array.isArray(value) ? value.join(", ") : value,
    ]),
  );
  const host = headers["host"] ?? "";
  const bases =
    publicUrl === undefined
      ? [`https://${host}`, `http://${host}`]
      : [publicUrl.replace(/\/+$/, "")];
  return {
    path: url.pathname.slice(`/webhooks/${name}/`.length),
    urls: bases.map((base) => base + received.url),
    query: url.searchParams,
    headers,
    body: Buffer.isBuffer(received.body) ? received.body : Buffer.alloc(0),
    receivedAt: Date.now(),
  };
}
