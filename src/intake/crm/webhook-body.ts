/** Reads the body of a webhook, or says what is wrong with it. */
import { isUtf8 } from "node:buffer";
import { kindOf } from "../../core/event/problem.ts";
import type { EventProblem, Translated, WebhookEvent, WebhookRequest } from "./connector.ts";
import { parseFromCrm, textOf } from "./json-value.ts";

/** Events of one body, and entries of one list; far above what any CRM sends. */
const MAX_EVENTS = 10_000;

/** The body is not what the CRM sends. The message says why and quotes nothing of the body. */
export class WebhookBodyError extends Error {}

/** The body cannot be translated now; the sender should post it again. */
export class WebhookUnavailable extends Error {}

/** @throws WebhookBodyError when the body is not UTF-8. */
export function textOfBody({ body }: WebhookRequest): string {
  if (!isUtf8(body)) throw new WebhookBodyError("the body is not valid UTF-8");
  return body.toString("utf8");
}

/** @throws WebhookBodyError when the body is not JSON. */
export function jsonOf(request: WebhookRequest): unknown {
  const text = textOfBody(request);
  try {
    return parseFromCrm(text);
  } catch {
    throw new WebhookBodyError("the body is not valid JSON");
  }
}

/** @throws WebhookBodyError when it is not a list, or longer than any CRM's. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new WebhookBodyError(`${name} is not a list`);
  if (value.length > MAX_EVENTS) throw tooMany(`${name} has ${value.length} entries`);
  return value;
}

/**
 * The events of all entries of a list. A bad entry does not keep the others from being stored.
 * @throws WebhookBodyError when all entries are bad, or as soon as there are more events than any CRM
 *   sends at once.
 */
export function eventsOfEach(
  list: readonly unknown[],
  eventsOf: (entry: unknown) => readonly WebhookEvent[],
): Pick<Translated, "events" | "each"> {
  const events: WebhookEvent[] = [];
  const positions: number[] = [];
  const problems: EventProblem[] = [];
  for (const [index, entry] of list.entries()) {
    try {
      for (const event of eventsOf(entry)) {
        events.push(event);
        positions.push(index);
      }
    } catch (error) {
      if (!(error instanceof WebhookBodyError) || list.length === 1) throw error;
      problems.push({ index, field: "", rule: error.message, kind: kindOf(entry) });
    }
    if (events.length > MAX_EVENTS) throw tooMany("the body is about too many records");
  }
  const [first] = problems;
  if (first !== undefined && problems.length === list.length)
    throw new WebhookBodyError(first.rule);
  return { events, each: { of: list.length, positions, problems } };
}

const tooMany = (what: string) =>
  new WebhookBodyError(`${what}: send at most ${MAX_EVENTS} at once`);

/** @throws WebhookBodyError when the value is empty. */
export function required(value: unknown, name: string): string {
  const text = textOf(value);
  if (text === "") throw new WebhookBodyError(`${name} is missing`);
  return text;
}

/** Reads the header Authorization. */
type Headers = Readonly<Record<string, string | undefined>>;

/** `user:password` of HTTP Basic. */
export function basicOf(headers: Headers): string | undefined {
  const given = /^Basic +([A-Za-z0-9+/=]+) *$/i.exec(headers["authorization"] ?? "")?.[1];
  return given === undefined ? undefined : Buffer.from(given, "base64").toString("utf8");
}

export const bearerOf = (headers: Headers): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(headers["authorization"] ?? "")?.[1];
