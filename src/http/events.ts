/** POST /events: the door for producers that speak HTTP instead of BullMQ. */
import type { FastifyInstance } from "fastify";
import { parseEvent } from "../event/crm-event.ts";
import { eventKey } from "../event/event-key.ts";
import type { PushResult } from "../event/inbox.ts";
import { bearerCheck } from "./bearer.ts";

/** Largest body taken (DESIGN §7). */
const BODY_LIMIT = 1024 * 1024;

/** Seconds after which a sender should try again when Redis cannot take its events. */
const RETRY_AFTER_S = 5;

const STRUCTURED = "application/cloudevents+json";
const BATCH = "application/cloudevents-batch+json";

export interface EventsPorts {
  /** Undefined: no token is configured, and every request is refused unless `open`. */
  readonly token: (() => string) | undefined;
  readonly open: boolean;
  push(events: readonly PushableEvent[]): Promise<PushResult>;
  seen(keys: readonly string[]): Promise<ReadonlySet<string>>;
  /** Told when Redis could not take a request's events. */
  unavailable(error: unknown): void;
}

export interface PushableEvent {
  readonly source: string;
  readonly id: string;
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
    scope.addContentTypeParser(
      [STRUCTURED, BATCH, "application/json"],
      { parseAs: "string", bodyLimit: BODY_LIMIT },
      scope.getDefaultJsonParser("error", "ignore"),
    );
    scope.addHook("onRequest", bearerCheck(ports.token, ports.open, "INGEST_TOKEN"));
    scope.post("/events", async (request, reply) => {
      const { body } = request;
      const batch = Array.isArray(body) ? (body as unknown[]) : undefined;
      const { events, problems } = checkEvents(batch ?? [body], batch !== undefined);
      if (problems.length > 0) {
        return reply
          .code(400)
          .send({ error: "the events have problems; none was taken", problems });
      }
      try {
        const keys = events.map(eventKey);
        const seen = await ports.seen(keys);
        const fresh = events.filter((_, index) => !seen.has(keys[index] ?? ""));
        const pushed = await ports.push(fresh);
        return await reply.code(202).send({
          accepted: pushed.accepted,
          duplicates: pushed.duplicates + events.length - fresh.length,
        });
      } catch (error) {
        ports.unavailable(error);
        return reply
          .code(503)
          .header("retry-after", String(RETRY_AFTER_S))
          .send({ error: "the queue cannot take events now; nothing was taken: send them again" });
      }
    });
  });
}

/** All events or none: a batch with one bad event is refused whole, with every problem named. */
function checkEvents(
  values: readonly unknown[],
  isBatch: boolean,
): { events: PushableEvent[]; problems: EventProblem[] } {
  const events: PushableEvent[] = [];
  const problems: EventProblem[] = [];
  const now = Date.now();
  for (const [index, value] of values.entries()) {
    const parsed = parseEvent(value, now);
    if (parsed.ok) events.push(value as PushableEvent);
    else problems.push(...parsed.problems.map((p) => (isBatch ? { index, ...p } : p)));
  }
  return { events, problems };
}
