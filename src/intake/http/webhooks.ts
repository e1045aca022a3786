/** POST /webhooks/<name>: one address per connector, and per webhook of the mapping file. */
import { createHash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type {
  RequestToVerify,
  Verification,
  WebhookEndpoint,
  WebhookRequest,
} from "../crm/connector.ts";
import { WebhookBodyError, WebhookUnavailable } from "../crm/webhook-body.ts";
import { secretsOf, type SecretText } from "../../base/secrets.ts";
import type { IntakeGuard } from "./intake-guard.ts";
import { WEBHOOK_BODY } from "./limits.ts";
import {
  RETRY_AFTER_S,
  storeEvents,
  type IntakePorts,
  type RequestClaim,
  problemsResponse,
  usableEvents,
  type UsableEvents,
} from "./store-events.ts";

/** How a webhook request ended: 200, 401, 400, 400, 409 or 503. */
export const WEBHOOK_OUTCOMES = [
  "stored",
  "unauthorised",
  "bad_body",
  "partly_stored",
  "copy",
  "unavailable",
] as const;
export type WebhookOutcome = (typeof WEBHOOK_OUTCOMES)[number];

/** A report of lost changes is remembered for as long as the ids of events, s. */
const GAPS_REMEMBERED_S = 7 * 86_400;

export interface WebhookPorts extends IntakePorts {
  /** The secret in this variable; while it is undefined, every request is answered 401. */
  secret(name: string): SecretText | undefined;
  /** Whether records of this CRM can be fetched. */
  canFetch(crm: string): boolean;
  /** Address of this server as senders call it, when a proxy stands in front of it. */
  readonly publicUrl: string | undefined;
  ended(crm: string, outcome: WebhookOutcome, why: string): void;
  /** Called when a CRM dates changes by a time that stands for none. */
  undated(crm: string): void;
  /** Called when a CRM reports that it lost changes. */
  changesLost(crm: string, gaps: number): void;
}

export function serveWebhooks(
  app: FastifyInstance,
  endpoints: readonly WebhookEndpoint[],
  guard: IntakeGuard,
  ports: WebhookPorts,
): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", guard.bodiesUpTo(WEBHOOK_BODY));
    scope.addHook("preHandler", guard.turn);
    for (const endpoint of endpoints) {
      const route = {
        onRequest: async (request: FastifyRequest, reply: FastifyReply) =>
          checkHead(endpoint, request, reply, guard, ports),
      };
      const take = async (request: FastifyRequest, reply: FastifyReply) =>
        takeRequest(endpoint, request, reply, ports);
      scope.post(`/webhooks/${endpoint.name}`, route, take);
      scope.post(`/webhooks/${endpoint.name}/*`, route, take);
    }
    const unknown = async (request: FastifyRequest, reply: FastifyReply) => {
      await guard.admit(request, reply, undefined);
      await reply.code(404).send({ error: "the mapping file has no webhook of this name" });
    };
    scope.post("/webhooks/json/*", { onRequest: unknown }, unknown);
  });
}

/** Rejects requests by their headers and address, before the body is read. */
async function checkHead(
  endpoint: WebhookEndpoint,
  received: FastifyRequest,
  reply: FastifyReply,
  guard: IntakeGuard,
  ports: WebhookPorts,
): Promise<void> {
  const { name, secretName, tooFast } = endpoint;
  const verified = verify(endpoint, { ...headOf(received, name, ports), body: undefined }, ports);
  const isKnown = secretName !== undefined && verified.ok && verified.needsBody !== true;
  await guard.admit(received, reply, isKnown ? `of ${name}` : undefined, tooFast);
  if (verified.ok) return;
  ports.ended(name, "unauthorised", verified.why);
  await reply.code(401).send({ error: verified.why });
}

function verify(
  endpoint: WebhookEndpoint,
  request: RequestToVerify,
  ports: WebhookPorts,
): Verification {
  const { secretName } = endpoint;
  const secrets = secretName === undefined ? [] : secretsOf(ports.secret(secretName));
  if (secretName !== undefined && secrets.length === 0) {
    return { ok: false, why: `${secretName} is not configured, so no request is accepted here` };
  }
  return endpoint.verify(request, secrets);
}

async function takeRequest(
  endpoint: WebhookEndpoint,
  received: FastifyRequest,
  reply: FastifyReply,
  ports: WebhookPorts,
): Promise<void> {
  const { name } = endpoint;
  const end = async (status: number, outcome: WebhookOutcome, why: string, more: object = {}) => {
    ports.ended(name, outcome, why);
    await reply.code(status).send({ error: why, ...more });
  };
  const unavailable = async (why: string) => {
    void reply.header("retry-after", String(RETRY_AFTER_S));
    return end(503, "unavailable", why);
  };
  const body = Buffer.isBuffer(received.body) ? received.body : Buffer.alloc(0);
  const request = { ...headOf(received, name, ports), body };
  const verified = verify(endpoint, request, ports);
  if (!verified.ok) return end(401, "unauthorised", verified.why);

  let usable: UsableEvents;
  try {
    const translated = await endpoint.toEvents(request, ports.canFetch(name));
    usable = await usableEvents(translated, ports);
    await countGaps(translated.gaps ?? 0, request, endpoint, ports);
  } catch (error) {
    if (error instanceof WebhookUnavailable) return unavailable(error.message);
    if (!(error instanceof WebhookBodyError)) throw error;
    return end(400, "bad_body", error.message);
  }
  const { events, problems, undated } = usable;
  if (undated > 0) ports.undated(name);
  const { error, ...detail } = problemsResponse(usable);
  if (problems.length > 0 && events.length === 0) return end(400, "bad_body", error, detail);
  // A request that is stored in part may be sent again, once the rest of it is usable.
  const claim = problems.length > 0 ? undefined : claimOf(endpoint, verified.requestKey);
  const result = await storeEvents(events, claim, ports);
  switch (result.kind) {
    case "unavailable":
      return unavailable("events cannot be stored now; send all of them again, none counts twice");
    case "copy":
      return end(409, "copy", "this signed request was accepted before");
    case "stored": {
      const { accepted, duplicates } = result;
      if (problems.length > 0) {
        return end(400, "partly_stored", error, { accepted, duplicates, ...detail });
      }
      ports.ended(name, "stored", "");
      const { contentType, body } = acknowledgementOf(endpoint, request);
      await reply
        .code(200)
        .type(contentType)
        .send(body ?? JSON.stringify({ accepted, duplicates }));
    }
  }
}

/**
 * Counts a report of lost changes once for each body: a relay repeats a request that was not answered in
 * time, and a report has no id by which the copy would be recognised.
 */
async function countGaps(
  gaps: number,
  { body }: WebhookRequest,
  { name }: WebhookEndpoint,
  ports: WebhookPorts,
): Promise<void> {
  if (gaps === 0) return;
  const key = `gaps:${name}:${createHash("sha256").update(body).digest("base64url")}`;
  if (await ports.isRemembered(key).catch(() => false)) return;
  ports.changesLost(name, gaps);
  await ports.remember(key, GAPS_REMEMBERED_S).catch(() => {});
}

function claimOf(
  { name, rememberForS }: WebhookEndpoint,
  requestKey: string | undefined,
): RequestClaim | undefined {
  if (requestKey === undefined) return undefined;
  const hash = createHash("sha256").update(requestKey).digest("base64url");
  return { key: `${name}:${hash}`, forSeconds: rememberForS };
}

function acknowledgementOf(endpoint: WebhookEndpoint, request: WebhookRequest) {
  const isXml = /xml/i.test(request.headers["content-type"] ?? "");
  const json = { contentType: "application/json", body: undefined };
  return endpoint.acknowledgement !== undefined && isXml ? endpoint.acknowledgement : json;
}

function headOf(
  received: FastifyRequest,
  name: string,
  ports: Pick<WebhookPorts, "now" | "publicUrl">,
): Omit<WebhookRequest, "body"> {
  const url = new URL(received.url, "http://localhost");
  const headers = Object.fromEntries(
    Object.entries(received.headers).map(([key, value]) => [
      key,
      Array.isArray(value) ? value.join(", ") : value,
    ]),
  );
  const host = headers["host"] ?? "";
  const bases =
    ports.publicUrl === undefined
      ? [`https://${host}`, `http://${host}`]
      : [ports.publicUrl.replace(/\/+$/, "")];
  return {
    path: url.pathname.slice(`/webhooks/${name}/`.length),
    urls: bases.map((base) => base + received.url),
    query: url.searchParams,
    headers,
    receivedAt: ports.now(),
  };
}
