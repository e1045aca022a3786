/** Messages for mistakes in the structure of the section `webhooks`. */

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
