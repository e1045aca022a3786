/** POST /events: CloudEvents over HTTP, for senders that do not use BullMQ. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parseEvent } from "../event/crm-event.ts";
import { parseExactly } from "../event/exact-json.ts";
import { hasToken, sendUnauthorised } from "./bearer.ts";
import { eventOfHeaders, isBinary } from "./binary-event.ts";
import { secretsOf, type SecretText } from "../ops/secrets.ts";
import { isSigned, REMEMBER_FOR_S, verifySignature } from "./signature.ts";
import {
  sendStoreResult,
  storeEvents,
  type IntakePorts,
  type PushableEvent,
  type RequestClaim,
} from "./store-events.ts";

/** Largest body accepted, bytes. */
const BODY_LIMIT = 1024 * 1024;

const JSON_TYPES = [
  "application/cloudevents+json",
  "application/cloudevents-batch+json",
  "application/json",
];

export interface EventsPorts extends IntakePorts {
  /** Bearer tokens and signing secrets; with neither, every request gets 401 unless `open`. */
  readonly token: SecretText | undefined;
  readonly secret: SecretText | undefined;
  readonly open: boolean;
}

interface EventProblem {
  /** Position in the batch, from 0; absent when the body was a single event. */
  readonly index?: number;
  readonly field: string;
  readonly rule: string;
  readonly kind: string;
}

export function serveEvents(app: FastifyInstance, ports: EventsPorts): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // Keep the bytes as received: the signature covers them.
    scope.addContentTypeParser(
      JSON_TYPES,
      { parseAs: "buffer", bodyLimit: BODY_LIMIT },
      (_request, body, done) => done(null, body),
    );
    scope.addHook("onRequest", async (request, reply) => checkCredentials(request, reply, ports));
    scope.post("/events", async (request, reply) => takeRequest(request, reply, ports));
  });
}

/** Rejects requests without credentials before reading the body. */
async function checkCredentials(
  request: FastifyRequest,
  reply: FastifyReply,
  ports: EventsPorts,
): Promise<void> {
  if (needsNoSignature(request, ports)) return;
  if (ports.secret !== undefined && isSigned(request.headers)) return;
  const error =
    ports.token === undefined && ports.secret === undefined
      ? "neither INGEST_TOKEN nor INGEST_SECRET is configured, so no request is accepted (INGEST_AUTH=none accepts all)"
      : "the bearer token is missing or wrong, and the request is not signed";
  await sendUnauthorised(reply, error);
}

const needsNoSignature = (request: FastifyRequest, ports: EventsPorts): boolean =>
  ports.open || hasToken(request, ports.token);

async function takeRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  ports: EventsPorts,
): Promise<void> {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  let claim: RequestClaim | undefined;
  if (!needsNoSignature(request, ports)) {
    const requestKey = verifySignature(body, request.headers, secretsOf(ports.secret));
    if (requestKey === undefined) {
      await sendUnauthorised(
        reply,
        "the signature does not match any configured secret, or webhook-timestamp is more than 5 minutes from this machine's clock (webhook-id, webhook-timestamp, webhook-signature)",
      );
      return;
    }
    claim = { key: `events:${requestKey}`, forSeconds: REMEMBER_FOR_S };
  }
  const read = readEvents(request, body, ports.now());
  if (!read.ok) {
    await reply.code(400).send({ error: read.error, problems: read.problems });
    return;
  }
  await sendStoreResult(reply, await storeEvents(read.events, claim, ports));
}

type ReadEvents =
  | { readonly ok: true; readonly events: readonly PushableEvent[] }
  | {
      readonly ok: false;
      readonly error: string;
      readonly problems: readonly EventProblem[] | undefined;
    };

/** All events or none: one bad event rejects the whole batch, and every problem is reported. */
function readEvents(request: FastifyRequest, body: Buffer, now: number): ReadEvents {
  let value: unknown;
  try {
    const text = body.toString("utf8");
    value = text === "" && isBinary(request.headers) ? undefined : parseExactly(text);
  } catch {
    return { ok: false, error: "the body is not valid JSON", problems: undefined };
  }
  if (isBinary(request.headers)) value = eventOfHeaders(request.headers, value);
  const batch = Array.isArray(value) ? (value as unknown[]) : undefined;
  const events: PushableEvent[] = [];
  const problems: EventProblem[] = [];
  for (const [index, one] of (batch ?? [value]).entries()) {
    const parsed = parseEvent(one, now);
    if (parsed.ok) events.push(one as PushableEvent);
    else problems.push(...parsed.problems.map((p) => (batch === undefined ? p : { index, ...p })));
  }
  if (problems.length === 0) return { ok: true, events };
  const hint = problems.some(({ field }) => field === "specversion")
    ? "; send a CloudEvent with the CRM's record in data.record (docs/webhooks.md)"
    : "";
  return { ok: false, error: `the events have problems and none was stored${hint}`, problems };
}
