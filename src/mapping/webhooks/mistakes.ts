/** Messages for mistakes in the structure of the section `webhooks`. */
import type { Path } from "../mistake.ts";

const WAYS = "bearer, basic, header, query, body, hmac, standard-webhooks or none";

/** What is allowed at a place below `webhooks` that takes several kinds of values. */
export function allowedInWebhook(path: Path): string {
  switch (String(path.at(-1))) {
    case "verify":
      return "must say how it is checked who posts: bearer, basic, standard-webhooks, none, or a block such as { by: hmac, header: X-Signature }";
    case "by":
      return `must be one of ${WAYS}`;
    case "operation":
      return "must be an expression, or a block with from, value, table or default";
    case "time":
      return "must be an expression, or a block with from and zone";
    default:
      return "must be an expression, or a constant: { value: … }";
  }
}

/** What stands for a wrong key of a webhook while the rest is checked; others are removed. */
export const WEBHOOK_STAND_INS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["verify", "bearer"],
  ["object", { value: "?" }],
]);

/** Names that authors use for keys of a webhook, in lower case, and what they mean. */
export const MEANT_IN_WEBHOOK: ReadonlyMap<string, string> = new Map(
  Object.entries({
    id: "recordId (the record's id) or eventId (the event's own id)",
    subject: "object and recordId",
    subjectid: "recordId",
    auth: "verify",
    secret: "verify: { by: …, secret: … }",
    token: "verify: { by: bearer, secret: … }",
    list: "events",
    items: "events",
    path: "events",
    type: "operation or object",
    action: "operation",
    model: "object",
    data: "record",
    timestamp: "time",
  }),
);
