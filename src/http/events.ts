/** POST /events: CloudEvents over HTTP, for senders that do not use BullMQ. */
import { isUtf8 } from "node:buffer";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parseEvent } from "../event/crm-event.ts";
import { parseExactly } from "../event/exact-json.ts";
import { inSlices } from "../ops/in-slices.ts";
import { secretsOf, type SecretText } from "../ops/secrets.ts";
import { MAX_PROBLEMS, type Problem } from "../event/problem.ts";
import { hasToken, sendUnauthorised, type IntakeGuard } from "./intake-guard.ts";
import { eventOfHeaders, isBinary } from "./binary-event.ts";
import { EVENTS, EVENTS_BODY } from "./limits.ts";
import { isSignedNow, REMEMBER_FOR_S, verifySignature } from "./signature.ts";
import {
  sendStoreResult,
  storeEvents,
  type IntakePorts,
  type PushableEvent,
  type RequestClaim,
} from "./store-events.ts";

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

interface EventProblem extends Problem {
  /** Position in the batch, from 0; absent when the body was a single event. */
  readonly index?: number;
}

export function serveEvents(app: FastifyInstance, guard: IntakeGuard, ports: EventsPorts): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // Keep the bytes as received: the signature covers them.
    scope.addContentTypeParser(JSON_TYPES, guard.bodiesUpTo(EVENTS_BODY));
    scope.addHook("onRequest", async (request, reply) => {
      await guard.admit(request, reply, hasToken(request, ports.token) ? "of events" : undefined);
      await checkCredentials(request, reply, ports);
    });
    scope.addHook("preHandler", guard.turn);
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
  if (ports.secret !== undefined && isSignedNow(request.headers, ports.now())) return;
  const error =
    ports.token === undefined && ports.secret === undefined
      ? "neither INGEST_TOKEN nor INGEST_SECRET is configured, so no request is accepted (INGEST_AUTH=none accepts all)"
      : "the bearer token is missing or wrong, and the request is not signed, or its webhook-timestamp is more than 5 minutes from this machine's clock";
  await sendUnauthorised(reply, error);
}

const needsNoSignature = (request: FastifyRequest, ports: EventsPorts): boolean =>
  ports.open || hasToken(request, ports.token);

async function takeRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  ports: EventsPorts,
): Promise<unknown> {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  let claim: RequestClaim | undefined;
  if (!needsNoSignature(request, ports)) {
    const requestKey = verifySignature(body, request.headers, secretsOf(ports.secret));
    if (requestKey === undefined) {
      return sendUnauthorised(
        reply,
        "the signature does not match any configured secret, or webhook-timestamp is more than 5 minutes from this machine's clock (webhook-id, webhook-timestamp, webhook-signature)",
      );
    }
    // Otherwise a copy of the body could be given another type, such as a deletion.
    if (isBinary(request.headers)) {
      const error =
        "a signature does not cover the ce- headers: send signed events in structured mode (application/cloudevents+json)";
      return reply.code(400).send({ error });
    }
    claim = { key: `events:${requestKey}`, forSeconds: REMEMBER_FOR_S };
  }
  const read = await readEvents(request, body, ports);
  if ("error" in read) return reply.code(400).send(read);
  return sendStoreResult(reply, await storeEvents(read, claim, ports));
}

/** What is answered to a request that is refused as a whole. */
interface Refused {
  readonly error: string;
  /** The first ones, and how many there are. */
  readonly problems?: readonly EventProblem[];
  readonly problemCount?: number;
}

type ReadEvents = readonly PushableEvent[] | Refused;

/** All events or none: one bad event rejects the whole batch. */
async function readEvents(
  request: FastifyRequest,
  body: Buffer,
  ports: EventsPorts,
): Promise<ReadEvents> {
  if (!isUtf8(body)) return { error: "the body is not valid UTF-8" };
  let value: unknown;
  try {
    const text = body.toString("utf8");
    value = text === "" && isBinary(request.headers) ? undefined : parseExactly(text);
  } catch {
    return { error: "the body is not valid JSON" };
  }
  if (isBinary(request.headers)) value = eventOfHeaders(request.headers, value);
  const batch = Array.isArray(value) ? (value as unknown[]) : undefined;
  if (batch !== undefined && batch.length > EVENTS) {
    return {
      error: `the batch has ${batch.length} events, and none was stored: send at most ${EVENTS} at once`,
    };
  }
  return checkEvents(batch ?? [value], batch !== undefined, ports);
}

async function checkEvents(
  values: readonly unknown[],
  isBatch: boolean,
  ports: EventsPorts,
): Promise<ReadEvents> {
  const events: PushableEvent[] = [];
  const problems: EventProblem[] = [];
  let problemCount = 0;
  await inSlices(values, (value, index) => {
    const parsed = parseEvent(value, ports.now(), ports.ids);
    if (parsed.ok) {
      events.push(value as PushableEvent);
      return;
    }
    problemCount += parsed.problems.length;
    const room = parsed.problems.slice(0, MAX_PROBLEMS - problems.length);
    problems.push(...room.map((problem) => (isBatch ? { index, ...problem } : problem)));
  });
  if (problemCount === 0) return events;
  const hint = problems.some(({ field }) => field === "specversion")
    ? "; send a CloudEvent with the CRM's record in data.record (docs/webhooks.md)"
    : "";
  const error = `the events have problems and none was stored${hint}`;
  return { error, problems, problemCount };
}
