/** Evaluates a webhook's expressions on the events of a body. Runs in the mapping's thread. */
import { kindOf, type Problem, isObject } from "../../../core/event/problem.ts";
import { withoutNulls } from "../clean.ts";
import { failureOf } from "../expression-errors.ts";
import type { Watch } from "../map-fields.ts";
import type { CompiledWebhook, WebhookExpression } from "./compile.ts";
import { eventTime } from "./event-time.ts";
import type { Operation } from "./rule.ts";
import type { ChunkRequest, TranslatedEvent, WebhookContent, WebhookKey } from "./webhook.ts";

/** @param at is called with the place of each event in the chunk, to name one that never ends. */
export async function translateChunk(
  webhook: CompiledWebhook,
  { events, headers, query }: ChunkRequest,
  watch: Watch,
  at: (index: number) => void,
): Promise<TranslatedEvent[]> {
  const translated: TranslatedEvent[] = [];
  let listed: unknown;
  let body: unknown;
  for (const [index, one] of events.entries()) {
    at(index);
    // Mostly all events of a chunk have one body.
    if (one.body !== listed) {
      listed = one.body;
      body = withoutNulls(listed);
    }
    translated.push(await translateEvent(webhook, one.event, { body, headers, query }, watch));
  }
  return translated;
}

export async function translateEvent(
  webhook: CompiledWebhook,
  given: unknown,
  surroundings: WebhookContent,
  watch: Watch,
): Promise<TranslatedEvent> {
  const name = webhook.about.name;
  if (!isObject(given)) {
    const rule = `must be an object; \`events\` of webhooks.${name} says where the body lists them`;
    return { kind: "problems", problems: [{ field: "event", rule, kind: kindOf(given) }] };
  }
  const event = withoutNulls(given);
  const problems: Problem[] = [];
  const fail = (field: WebhookKey, rule: string, value: unknown) =>
    void problems.push({
      field,
      rule: `${rule} (webhooks.${name} in the mapping)`,
      kind: kindOf(value),
    });
  const value = async (key: WebhookKey, expression: WebhookExpression): Promise<unknown> => {
    watch(key);
    try {
      const found = await expression.evaluate(event, { ...surroundings });
      // The table of `operation` may have the word false.
      return key === "operation" && found === false ? found : emptyAsMissing(found);
    } catch (error) {
      fail(key, `cannot be read: ${failureOf(error)}`, event);
      return FAILED;
    }
  };
  const scope: Scope = { webhook, value, fail };

  const object = await objectOf(scope);
  const operation = await operationOf(scope, object);
  if (operation === null) return { kind: "left_out" };
  const recordId = await idOf("recordId", webhook.recordId, scope);
  const time = await timeOf(scope);
  const eventId = webhook.eventId && (await idOf("eventId", webhook.eventId, scope));
  const record = operation && (await recordOf(operation, scope));
  if (
    problems.length > 0 ||
    operation === undefined ||
    object === undefined ||
    recordId === undefined
  )
    return { kind: "problems", problems };
  return { kind: "event", operation, object, recordId, time, eventId, record };
}

interface Scope {
  readonly webhook: CompiledWebhook;
  /** FAILED when the expression failed, which is then reported already. */
  readonly value: (key: WebhookKey, expression: WebhookExpression) => Promise<unknown>;
  readonly fail: (field: WebhookKey, rule: string, value: unknown) => void;
}

const FAILED = Symbol("failed");

/** Undefined: there is a problem. Null: the event is left out. */
async function operationOf(
  { webhook, value, fail }: Scope,
  object: string | undefined,
): Promise<Operation | null | undefined> {
  const { from, table, otherwise } = webhook.operation;
  if (from === undefined) return otherwise;
  const given = await value("operation", from);
  if (given === FAILED) return undefined;
  const word = typeof given === "boolean" ? String(given) : idText(given);
  if (word !== undefined) {
    const meant = table(word);
    const operation = meant === undefined ? operationOfWord(word, object) : meant;
    if (operation !== undefined) return operation;
  }
  if (otherwise !== undefined) return otherwise;
  fail(
    "operation",
    given === undefined
      ? `is required: \`${from.text}\` found nothing; write a \`default\` if it is optional`
      : "must say created, updated, deleted or restored, or be a word of its `table`",
    given,
  );
  return undefined;
}

async function objectOf({ webhook, value, fail }: Scope): Promise<string | undefined> {
  if (typeof webhook.object === "string") return webhook.object;
  const given = await value("object", webhook.object);
  if (given === FAILED) return undefined;
  if (typeof given === "string" && !given.includes("/")) return given;
  const rule = given === undefined ? nothingAt(webhook.object) : "must be a text without a slash";
  fail("object", rule, given);
  return undefined;
}

async function idOf(
  key: "recordId" | "eventId",
  expression: WebhookExpression,
  { value, fail }: Scope,
): Promise<string | undefined> {
  const given = await value(key, expression);
  // An event without an id of its own is recognised by its content.
  if (given === FAILED || (given === undefined && key === "eventId")) return undefined;
  const text = idText(given);
  if (text !== undefined) return text;
  const rule = given === undefined ? nothingAt(expression) : "must be a text or a whole number";
  fail(key, rule, given);
  return undefined;
}

async function timeOf({ webhook, value, fail }: Scope): Promise<string | undefined> {
  if (webhook.time === undefined) return undefined;
  const given = await value("time", webhook.time);
  if (given === FAILED || given === undefined) return undefined;
  const time = eventTime(given, webhook.zone);
  if (time === undefined) {
    const rule =
      "must be a date and time such as 2026-11-20T09:30:11Z, or seconds or milliseconds since 1970; $toMillis(text, picture) reads others";
    fail("time", rule, given);
  }
  return time;
}

async function recordOf(
  operation: Operation,
  { webhook, value, fail }: Scope,
): Promise<Readonly<Record<string, unknown>> | "event" | undefined> {
  const { record: expression, about } = webhook;
  if (expression === undefined) return about.fetch === undefined ? "event" : undefined;
  const given = await value("record", expression);
  if (given === FAILED || isObject(given)) return given === FAILED ? undefined : given;
  const isOptional =
    operation === "deleted" || operation === "restored" || about.fetch !== undefined;
  if (given === undefined && isOptional) return undefined;
  const rule =
    given === undefined
      ? `${nothingAt(expression)}; to have it read from the CRM's API, name the CRM under \`fetch\``
      : "must be one object with the whole record";
  fail("record", rule, given);
  return undefined;
}

const nothingAt = ({ text }: WebhookExpression): string => `is required: \`${text}\` found nothing`;

/** A number is an id if it is a whole one that was not rounded. */
const idText = (value: unknown): string | undefined =>
  typeof value === "string" ? value : Number.isSafeInteger(value) ? String(value) : undefined;

/** Tools write an empty text, or false, where they have no value. */
const emptyAsMissing = (value: unknown): unknown =>
  value === null || value === false || (typeof value === "string" && value.trim() === "")
    ? undefined
    : value;

const WORDS: Readonly<Record<Operation, string>> = {
  created: "create created creation insert inserted add added new",
  updated:
    "update updated change changed changes edit edited modify modified upsert upserted write saved",
  deleted:
    "delete deleted deletion remove removed destroy destroyed unlink unlinked trash trashed purged",
  restored: "restore restored undelete undeleted untrash untrashed",
};

const OPERATION_OF: ReadonlyMap<string, Operation> = new Map(
  Object.entries(WORDS).flatMap(([operation, words]) =>
    words.split(/\s+/).map((word) => [word, operation as Operation] as const),
  ),
);

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

/** Words that change the meaning of the word beside them. */
const DOUBTFUL = wordsOf(
  "un not non no before will to request requested failed fail error canceled cancelled scheduled pending",
);

/** Usual names of a record's object. */
const OBJECTS = wordsOf(
  "contact person people company companie account organization organisation customer client lead item",
);

/** What else may stand beside the word for a deletion. */
const OF_A_RECORD = wordsOf(
  "on after is was has been record object entity row event webhook crm hard soft permanently",
);

/**
 * What a usual word means: "update", "contact.deleted", "ContactCreated", "record_edited". A wrong deletion
 * terminates a client, and a word that is not understood is answered 400. Something that is removed from a
 * record does not delete the record, so "contact.tag.removed" and "company.contact.removed" are not clear.
 * @param object the record's object, where it is known.
 * @returns undefined when it is not clear.
 */
export function operationOfWord(word: string, object = ""): Operation | undefined {
  const parts = partsOf(word);
  if (parts.some((part) => DOUBTFUL.has(part))) return undefined;
  const found = new Set(
    parts.map((part) => OPERATION_OF.get(part)).filter((one) => one !== undefined),
  );
  const [only] = found;
  if (found.size !== 1) return undefined;
  return only === "deleted" && !namesOneObject(parts, object) ? undefined : only;
}

/** Whether the words name nothing but the record's own object, or one that usually has such a name. */
function namesOneObject(parts: readonly string[], object: string): boolean {
  const names = parts
    .filter((part) => ![part, singular(part)].some((one) => isNoName(one)))
    .map(singular);
  const own = new Set(partsOf(object).map(singular));
  if (names.every((name) => own.has(name))) return true;
  const [first = "", ...others] = new Set(names);
  return others.length === 0 && OBJECTS.has(first);
}

const isNoName = (part: string): boolean => OPERATION_OF.has(part) || OF_A_RECORD.has(part);

const partsOf = (text: string): string[] =>
  text
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((part) => part !== "");

const singular = (part: string): string => part.replace(/s$/, "");
