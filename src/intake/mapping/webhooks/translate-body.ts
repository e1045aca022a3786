/**
 * Translates the body of a request in chunks. A long list then does not delay the mapping of
 * records, and an event on which an expression never ends does not affect the others.
 */
import { crmsync } from "../../../base/command.ts";
import { kindOf, isObject } from "../../../core/event/problem.ts";
import { startAwakeTimer } from "../map-thread.ts";
import { readDebezium } from "./debezium.ts";
import type {
  ListedEvent,
  ChunkRequest,
  ChunkResult,
  TranslatedBody,
  TranslatedEvent,
  WebhookAbout,
  WebhookContent,
} from "./webhook.ts";

/** Events of one body. */
const MAX_EVENTS = 10_000;

/** Events that the thread translates at once: a few milliseconds. */
const CHUNK = 200;

/** Limit for all events of one body, ms awake: as long as most senders wait. */
const BODY_DEADLINE_MS = 30_000;

/** How often the thread may be ended for one body: each time delays the records that wait. */
const MAX_LATE = 3;

export async function translateBody(
  about: WebhookAbout,
  { body, headers, query }: WebhookContent,
  run: (request: ChunkRequest) => Promise<ChunkResult>,
): Promise<TranslatedBody> {
  const { verify } = about;
  // The secret is no part of a record.
  const listed = eventsOf(verify.by === "body" ? without(body, verify.field) : body, about);
  if (typeof listed === "string") return { kind: "bad_body", why: listed };
  const results: TranslatedEvent[] = [];
  const limit = new AbortController();
  const endDeadline = startAwakeTimer(() => limit.abort(), BODY_DEADLINE_MS);
  let size = CHUNK;
  let late = 0;
  try {
    while (results.length < listed.length && !limit.signal.aborted && late < MAX_LATE) {
      const events = listed
        .slice(results.length, results.length + size)
        .map(({ event, body: around }) => ({ event, body: around }));
      const chunk = await run({ kind: "translate", webhook: about.name, events, headers, query });
      size = CHUNK;
      if (chunk.kind === "chunk") {
        results.push(...chunk.events);
        continue;
      }
      late += 1;
      // An event is at fault only as the first of its chunk: those before it took a part of the time.
      if (chunk.at === 0) results.push({ kind: "problems", problems: [chunk.problem] });
      else size = chunk.at;
    }
  } finally {
    endDeadline();
  }
  const events = listed.map(({ event, known, more, isKeyOnly }, index) => ({
    translated: known ?? withMore(results[index] ?? NOT_TRANSLATED, more),
    given: isKeyOnly === true ? undefined : event,
  }));
  return { kind: "translated", events };
}

const withMore = (translated: TranslatedEvent, more: Listed["more"]): TranslatedEvent =>
  translated.kind === "event" ? { ...translated, ...more } : translated;

const NOT_TRANSLATED: TranslatedEvent = {
  kind: "problems",
  problems: [
    {
      field: "event",
      rule: "was not read, because the expressions took too long on this body: simplify them, or post fewer events at once",
      kind: "an event",
    },
  ],
};

interface Listed extends ListedEvent {
  /** What becomes of it without any expression. */
  readonly known?: TranslatedEvent;
  /** What no expression says of it. */
  readonly more?: { readonly sequence: string | undefined; readonly lane: "bulk" | undefined };
  /** The event is a deletion of which nothing but the key is sure. */
  readonly isKeyOnly?: boolean;
}

/** The events of a body, or what is wrong with it. A body that is a list may list lists. */
function eventsOf(body: unknown, about: WebhookAbout): readonly Listed[] | string {
  const { events: path, name } = about;
  const listed: Listed[] = [];
  const isList = Array.isArray(body);
  for (const one of isList ? (body as unknown[]) : [body]) {
    const found = path.reduce<unknown>(
      (value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
      one,
    );
    const isTombstone = found === null && about.format !== undefined;
    if (!isList && !isTombstone && (found === undefined || found === null)) {
      return `the body has no ${path.join(".")} (webhooks.${name}.events in the mapping says that its events are there)`;
    }
    const events: readonly unknown[] = Array.isArray(found) ? found : [found];
    // The list itself is left out: it would be copied to the thread with every chunk.
    const around = without(one, path);
    if (listed.length + events.length > MAX_EVENTS) {
      return `the body has more than ${MAX_EVENTS} events: post fewer at once, or use ${crmsync`push`} for imports`;
    }
    const isInside = path.length > 0;
    for (const event of events) {
      if (about.format !== undefined) {
        listed.push(ofDebezium(event, name));
        continue;
      }
      listed.push({ event: isInside && isId(event) ? { id: event } : event, body: around });
    }
  }
  return listed;
}

function ofDebezium(given: unknown, webhook: string): Listed {
  const read = readDebezium(given);
  if (read.kind === "row") {
    const { about, isDeletion, isSnapshot, row, sequence } = read;
    const more = { sequence, lane: isSnapshot ? ("bulk" as const) : undefined };
    return { event: row, body: about, more, isKeyOnly: isDeletion };
  }
  if (read.kind === "other") return { event: {}, body: undefined, known: { kind: "left_out" } };
  const rule = `${read.rule} (webhooks.${webhook} in the mapping)`;
  const problem = { field: "event", rule, kind: kindOf(given) };
  return { event: {}, body: undefined, known: { kind: "problems", problems: [problem] } };
}

/** Some tools list the ids of their records alone. */
const isId = (event: unknown): boolean => typeof event === "string" || typeof event === "number";

/** A body without the value at the path; the whole body for an empty path. */
function without(body: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined || !isObject(body)) return body;
  const { [key]: inner, ...others } = body;
  return rest.length === 0 ? others : { ...others, [key]: without(inner, rest) };
}
