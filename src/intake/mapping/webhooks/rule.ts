/**
 * The structure of the section `webhooks` of a mapping file: which JSON bodies are accepted under
 * /webhooks/json/<name>, who may post them, and what they say.
 */
import { z } from "zod";
import { optional, orExpression, path, text, zone } from "../schema-parts.ts";
import { verifyRule } from "./verify-rule.ts";

/** What can have happened to a record; the last part of an event's `type`. */
export const OPERATIONS = ["created", "updated", "deleted", "restored"] as const;
export type Operation = (typeof OPERATIONS)[number];

/** CRMs from whose API a record can be fetched: the connectors that have a reader. */
export const FETCH_FROM = [
  "dynamics",
  "espocrm",
  "hubspot",
  "pipedrive",
  "redtail",
  "salesforce",
  "twenty",
  "wealthbox",
] as const;

const expression = text.describe(
  "A JSONata expression on the event; $body is the body around it (without the list of events), $query the address's parameters, $headers the request's headers (names in lower case).",
);

const operationRule = z.strictObject({
  from: optional(expression, "The expression that gives the tool's word."),
  value: optional(z.enum(OPERATIONS), "A constant, instead of an expression."),
  table: optional(
    z.record(z.string(), z.enum(OPERATIONS).nullable()),
    "The tool's word → created, updated, deleted or restored; null leaves the event out. Case does not matter.",
  ),
  default: optional(
    z.enum(OPERATIONS),
    "The operation of events for which nothing else gives one.",
  ),
});

const timeRule = z.strictObject({
  from: expression.describe("The expression that gives the time of the change."),
  zone: optional(
    zone,
    "The time zone of times without an offset, by its name, as Europe/Luxembourg.",
  ),
});

const objectRule = z.strictObject({
  from: optional(expression, "The expression that gives the object."),
  value: optional(
    text.regex(/^[^/]*$/, { error: "must not contain a slash" }),
    "A constant, instead of an expression.",
  ),
});

const webhookRule = z.strictObject({
  verify: verifyRule,
  format: optional(
    z.enum(["debezium"]),
    "debezium: the bodies are change events of Debezium. Expressions then see the row, and $body.source where it comes from; `verify` alone is enough.",
  ),
  events: optional(
    path,
    "Where the body lists its events: a path of names such as data.items. By default the body is the event, or a list of events. An event that is a text or a number stands for { id: it }.",
  ),
  operation: optional(
    orExpression(
      expression,
      operationRule,
      "must be an expression, or a block with from, value, table or default",
    ),
    "What happened: an expression for the tool's word, or a block. Usual words (create, edited, contact.deleted) are understood. By default every event is an update.",
  ),
  object: optional(
    orExpression(expression, objectRule, "must be an expression, or a constant: { value: … }"),
    "The CRM's object: an expression, or { value: … }. By default the only object under `objects`.",
  ),
  recordId: optional(expression, "The expression that gives the record's id; by default id."),
  time: optional(
    orExpression(expression, timeRule, "must be an expression, or a block with from and zone"),
    "The expression that gives the time of the change: ISO 8601 (UTC if it has no offset, unless { from: …, zone: … } names a zone), or seconds or milliseconds since 1970. By default events count as of their arrival.",
  ),
  eventId: optional(
    expression,
    "The expression that gives the event's own id, by which a second delivery is recognised. By default events with a time are recognised by their content.",
  ),
  record: optional(
    expression,
    "The expression that gives the whole record, as an object. By default it is the event itself; with `fetch`, the record that the CRM has.",
  ),
  whole: optional(
    z.boolean(),
    "If true, a field that a record lacks is empty in the CRM. By default it is not known, and the service keeps what it has; null, an empty text and false are empty in any case.",
  ),
  fetch: optional(
    z.enum(FETCH_FROM),
    "The CRM from whose API the record is fetched if the event does not contain it.",
  ),
});

/** The names of webhooks are part of addresses, metrics and variables. */
const WEBHOOK_NAME = /^[a-z0-9][a-z0-9-]{0,39}$/;

export const webhookRules = z.record(
  z.string().regex(WEBHOOK_NAME, {
    error: "must consist of small letters, digits and hyphens, and of 40 at most",
  }),
  webhookRule,
);

export type WebhookRule = z.output<typeof webhookRule>;
