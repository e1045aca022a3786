/** POST /events: CloudEvents over HTTP, for senders that do not use BullMQ. */
import { isUtf8 } from "node:buffer";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parseEvent } from "../../core/event/crm-event.ts";
import { parseExactly } from "../../core/event/exact-json.ts";
import { inSlices } from "../../base/in-slices.ts";
import { secretsOf, type SecretText, isOneOf } from "../../base/secrets.ts";
import { MAX_PROBLEMS, type Problem } from "../../core/event/problem.ts";
import { hasToken, sendUnauthorised, type IntakeGuard, headerText } from "./intake-guard.ts";
import { EVENTS, EVENTS_BODY } from "./limits.ts";
import {
  sendStoreResult,
  storeEvents,
  type IntakePorts,
  type PushableEvent,
  type RequestClaim,
} from "./store-events.ts";
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";

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

const PREFIX = "ce-";

/** The content type decides: what is in structured mode may have attributes as headers too. */
const isBinary = (headers: IncomingHttpHeaders): boolean =>
  !/^application\/cloudevents/i.test(headers["content-type"] ?? "") &&
  (headers["ce-specversion"] !== undefined || headers["ce-id"] !== undefined);

/** Builds the event without checking it: parseEvent checks events of every mode. */
export function eventOfHeaders(headers: IncomingHttpHeaders, data: unknown): unknown {
  const attributes = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(PREFIX) && typeof value === "string"
      ? [[name.slice(PREFIX.length), decode(value)] as const]
      : [],
  );
  return { ...Object.fromEntries(attributes), ...(data !== undefined && { data }) };
}

/** Header values are percent-encoded ASCII. Some senders leave the bytes of UTF-8 as they are. */
function decode(value: string): string {
  const text = headerText(value);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A signature is valid this long before and after its time, s: the value of Standard Webhooks. */
const TOLERANCE_S = 300;

/** How long a signature can stay valid, with a margin, s: a request is remembered for that time. */
const REMEMBER_FOR_S = 2 * TOLERANCE_S + 60;

/** The library reads "17e" as 17, which would give a copy of the request another key. */
const TIMESTAMP = /^[1-9]\d{0,11}$/;

/**
 * What can be told before the body is read: there is a signature, and its time is valid now.
 * @param now ms
 */
export function isSignedNow(headers: IncomingHttpHeaders, now: number): boolean {
  const timestamp = String(headers["webhook-timestamp"]);
  return (
    headers["webhook-id"] !== undefined &&
    String(headers["webhook-signature"]).includes("v1,") &&
    TIMESTAMP.test(timestamp) &&
    Math.abs(now / 1000 - Number(timestamp)) <= TOLERANCE_S
  );
}

/**
 * Its time is checked by `isSignedNow`: the library's own check goes by the clock of this machine.
 * @returns the request's key (id and time), undefined when the signature is not valid. Senders sign
 *   each retry with a new time, so the same key means a copy of the request.
 */
export function verifySignature(
  body: Buffer,
  headers: IncomingHttpHeaders,
  secrets: readonly string[],
): string | undefined {
  const id = String(headers["webhook-id"] ?? "");
  const timestamp = String(headers["webhook-timestamp"] ?? "");
  if (!TIMESTAMP.test(timestamp)) return undefined;
  const given = String(headers["webhook-signature"] ?? "").split(" ");
  for (const secret of secrets) {
    try {
      const signature = new Webhook(secret).sign(id, new Date(Number(timestamp) * 1000), body);
      if (given.some((one) => isOneOf(one, [signature]))) return `${id}.${timestamp}`;
    } catch {
      // Try the next secret. A secret that is not base64 ends here too.
    }
  }
  return undefined;
}
