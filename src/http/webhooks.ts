/** POST /webhooks/<name>: each CRM's own way to say what changed, at one kind of door. */
import { createHash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parseEvent } from "../event/crm-event.ts";
import { RETRY_AFTER_S, takeEvents, type IntakePorts } from "./take-events.ts";
import { secretsOf, type SecretText } from "../ops/secrets.ts";
import { dynamics } from "../crm/dynamics.ts";
import { espocrm } from "../crm/espocrm.ts";
import { hubspot } from "../crm/hubspot.ts";
import { pipedrive } from "../crm/pipedrive.ts";
import { salesforce } from "../crm/salesforce.ts";
import { twenty } from "../crm/twenty.ts";
import {
  WebhookBodyError,
  type CrmConnector,
  type WebhookEvent,
  type WebhookRequest,
} from "../crm/connector.ts";

export const CONNECTORS: readonly CrmConnector[] = [
  hubspot,
  salesforce,
  dynamics,
  pipedrive,
  espocrm,
  twenty,
];

/** A hundred outbound messages with every field filled stay below. */
const BODY_LIMIT = 4 * 1024 * 1024;

export const WEBHOOK_OUTCOMES = [
  "taken",
  "unauthorised",
  "bad_body",
  "copy",
  "unavailable",
] as const;
export type WebhookOutcome = (typeof WEBHOOK_OUTCOMES)[number];

export interface WebhookPorts extends IntakePorts {
  /** The webhook's secret, by its variable; undefined: nobody may send there. */
  secret(name: string): SecretText | undefined;
  /** Whether records of this webhook's CRM can be fetched. */
  canFetch(name: string): boolean;
  /** As senders see this server, where a proxy stands before it. */
  readonly publicUrl: string | undefined;
  ended(name: string, outcome: WebhookOutcome, why: string): void;
  /** Told that a CRM says that it lost changes. */
  lost(name: string, gaps: number): void;
}

export function serveWebhooks(app: FastifyInstance, ports: WebhookPorts): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "*",
      { parseAs: "buffer", bodyLimit: BODY_LIMIT },
      (_request, body, done) => done(null, body),
    );
    for (const webhook of CONNECTORS) {
      const take = async (request: FastifyRequest, reply: FastifyReply) =>
        takeRequest(webhook, request, reply, ports);
      scope.post(`/webhooks/${webhook.name}`, take);
      scope.post(`/webhooks/${webhook.name}/*`, take);
    }
  });
}

async function takeRequest(
  webhook: CrmConnector,
  received: FastifyRequest,
  reply: FastifyReply,
  ports: WebhookPorts,
): Promise<void> {
  const { name, secretName } = webhook;
  const end = async (status: number, outcome: WebhookOutcome, why: string) => {
    ports.ended(name, outcome, why);
    await reply.code(status).send({ error: why });
  };
  const secrets = secretsOf(ports.secret(secretName));
  if (secrets.length === 0) {
    return end(401, "unauthorised", `no ${secretName} is configured, so nobody may send here`);
  }
  const request = requestOf(received, name, ports.publicUrl);
  const verdict = webhook.verify(request, secrets);
  if (!verdict.ok) return end(401, "unauthorised", verdict.why);

  let events: readonly WebhookEvent[];
  let gaps: number;
  try {
    ({ events, gaps = 0 } = webhook.toEvents(request, ports.canFetch(name)));
    checkEvents(events, request.receivedAt);
  } catch (error) {
    if (!(error instanceof WebhookBodyError)) throw error;
    return end(400, "bad_body", error.message);
  }
  if (gaps > 0) ports.lost(name, gaps);
  const copyKey = verdict.copyKey && {
    key: `${name}:${createHash("sha256").update(verdict.copyKey).digest("base64url")}`,
    forSeconds: webhook.copyMemoryS,
  };
  const taken = await takeEvents(events, copyKey || undefined, ports);
  switch (taken.kind) {
    case "unavailable":
      void reply.header("retry-after", String(RETRY_AFTER_S));
      return end(
        503,
        "unavailable",
        "events cannot be kept now; nothing was taken: send them again",
      );
    case "copy":
      return end(409, "copy", "this very request was taken before: a copy of it is refused");
    case "taken": {
      ports.ended(name, "taken", "");
      const { contentType, body } = acknowledgementOf(webhook, request);
      await reply
        .code(200)
        .type(contentType)
        .send(body ?? JSON.stringify({ accepted: taken.accepted, duplicates: taken.duplicates }));
    }
  }
}

/** A translation of ours that does not hold is told to the sender as a body that does not. */
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

function acknowledgementOf(webhook: CrmConnector, request: WebhookRequest) {
  const isXml = /xml/i.test(request.headers["content-type"] ?? "");
  const json = { contentType: "application/json", body: undefined };
  return webhook.acknowledgement !== undefined && isXml ? webhook.acknowledgement : json;
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
