/** Puts the events of an HTTP request into the inbox; shared by /events and the webhooks. */
import type { FastifyReply } from "fastify";
import type { PushResult } from "../../core/event/inbox.ts";
import type { EventProblem, Translated, WebhookEvent } from "../crm/connector.ts";
import { WebhookBodyError } from "../crm/webhook-body.ts";
import { parseEvent, type RecordIds } from "../../core/event/crm-event.ts";
import { isPlaceholderTime } from "../../core/event/event-order.ts";
import { inSlices } from "../../base/in-slices.ts";
import { MAX_PROBLEMS } from "../../core/event/problem.ts";
import { EVENTS } from "./limits.ts";

export interface PushableEvent {
  readonly source: string;
  readonly id: string;
}

export interface IntakePorts {
  /** Redis' time, ms. This machine's clock may be wrong: it judges no event. */
  now(): number;
  /** Ids that the mapping allows instead of ordinary ones. */
  readonly ids: RecordIds;
  push(events: readonly PushableEvent[]): Promise<PushResult>;
  /** Those of the events that were processed before, with the same content. */
  seen(events: readonly PushableEvent[]): Promise<ReadonlySet<PushableEvent>>;
  /** Whether this request was remembered. */
  isRemembered(requestKey: string): Promise<boolean>;
  /** Remembers a request for so many seconds. */
  remember(requestKey: string, forSeconds: number): Promise<void>;
  /** Called when Redis could not store a request's events. */
  unavailable(error: unknown): void;
}

/** Identifies a signed request, and how long its signature can stay valid. */
export interface RequestClaim {
  readonly key: string;
  readonly forSeconds: number;
}

/** Retry-After of a 503, s. */
export const RETRY_AFTER_S = 5;

export type StoreResult =
  | ({ readonly kind: "stored" } & PushResult)
  /** The same signed request was accepted before. */
  | { readonly kind: "copy" }
  | { readonly kind: "unavailable" };

/**
 * Stores the events, and then remembers the request: after a crash between the two, a copy of the request
 * is accepted. Copies that arrive at the same moment are recognised by their events.
 * @param claim undefined where a copy of the request cannot be recognised.
 */
export async function storeEvents(
  events: readonly PushableEvent[],
  claim: RequestClaim | undefined,
  ports: IntakePorts,
): Promise<StoreResult> {
  try {
    if (claim !== undefined && (await ports.isRemembered(claim.key))) return { kind: "copy" };
    const seen = await ports.seen(events);
    const fresh = events.filter((event) => !seen.has(event));
    const pushed = await ports.push(fresh);
    const duplicates = pushed.duplicates + events.length - fresh.length;
    // The events are stored, whether this succeeds or not: a copy finds its events here.
    if (claim !== undefined) await ports.remember(claim.key, claim.forSeconds).catch(() => {});
    return { kind: "stored", accepted: pushed.accepted, duplicates };
  } catch (error) {
    ports.unavailable(error);
    return { kind: "unavailable" };
  }
}

export function sendStoreResult(reply: FastifyReply, result: StoreResult): FastifyReply {
  switch (result.kind) {
    case "stored":
      return reply.code(202).send({ accepted: result.accepted, duplicates: result.duplicates });
    case "copy":
      return reply.code(409).send({
        error:
          "this signed request was accepted before (same id, same time); sign a retry with a new time",
      });
    case "unavailable":
      return reply
        .code(503)
        .header("retry-after", String(RETRY_AFTER_S))
        .send({ error: "events cannot be stored now; send all of them again, none counts twice" });
  }
}

export interface UsableEvents {
  readonly events: readonly WebhookEvent[];
  readonly problems: readonly EventProblem[];
  /** How many events the body has. */
  readonly of: number;
  /** How many had a time that stands for none: they are as of their arrival. */
  readonly undated: number;
}

/**
 * @throws WebhookBodyError for a bad event of a body that is stored whole or not at all: a connector
 *   makes only valid events of valid bodies.
 */
export async function usableEvents(
  { events, each }: Translated,
  { ids, now }: Pick<IntakePorts, "ids" | "now">,
): Promise<UsableEvents> {
  if (events.length > EVENTS) {
    throw new WebhookBodyError(
      `the body has ${events.length} events: send at most ${EVENTS} at once`,
    );
  }
  const usable: WebhookEvent[] = [];
  const problems: EventProblem[] = [...(each?.problems ?? [])];
  let undated = 0;
  await inSlices(events, (sent, place) => {
    const { time, ...rest } = sent;
    const isUndated = time !== undefined && isPlaceholderTime(time);
    if (isUndated) undated += 1;
    const event = isUndated ? rest : sent;
    const parsed = parseEvent(event, now(), ids);
    if (parsed.ok) {
      usable.push(event);
      return;
    }
    if (each === undefined) {
      const [problem] = parsed.problems;
      throw new WebhookBodyError(
        `${problem?.field ?? "an event"} ${problem?.rule ?? "is not usable"}`,
      );
    }
    const index = each.positions[place] ?? place;
    problems.push(...parsed.problems.map((problem) => ({ index, ...problem })));
  });
  problems.sort((a, b) => a.index - b.index);
  return { events: usable, problems, of: each?.of ?? events.length, undated };
}

/** What the sender is answered about the events that were not stored. */
export function problemsResponse({ events, problems, of }: UsableEvents) {
  const [first] = problems;
  const what = first === undefined ? "" : `${first.field} ${first.rule}`.trim();
  const bad = new Set(problems.map(({ index }) => index)).size;
  const rest = events.length > 0 ? "the others are stored" : "none is stored";
  return {
    error:
      of === 1
        ? `the event is not stored: ${what}`
        : `${bad} of ${of} events are not stored, ${rest}; event ${first?.index ?? 0}: ${what}`,
    problems: problems.slice(0, MAX_PROBLEMS),
    problemCount: problems.length,
  };
}
