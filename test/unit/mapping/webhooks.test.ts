/** The section `webhooks` of a mapping file: what it accepts, and what its expressions make of bodies. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CRMS } from "../../../src/intake/crm/connectors.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { compileWebhooks } from "../../../src/intake/mapping/webhooks/compile.ts";
import { eventTime } from "../../../src/intake/mapping/webhooks/event-time.ts";
import {
  operationOfWord,
  translateEvent,
} from "../../../src/intake/mapping/webhooks/translate-event.ts";
import { FETCH_FROM } from "../../../src/intake/mapping/webhooks/rule.ts";
import { webhookProblems } from "../../../src/intake/mapping/webhooks/webhook.ts";
import { readConfig } from "../../../src/base/config.ts";
import { mutated } from "../../support/property.ts";

/** A mapping file with one webhook. */
function fileWith(webhook: string, objects = ["contact"]): string {
  const rules = objects.map(
    (object) => `  - object: ${object}
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }`,
  );
  const lines = webhook.replaceAll(/^/gm, "    ");
  return `version: 1\nobjects:\n${rules.join("\n")}\nwebhooks:\n  tool:\n${lines}\n`;
}

const compiled = (webhook: string, objects?: string[]) => {
  const all = compileWebhooks(readMappingFile(fileWith(webhook, objects), "m.yaml"));
  const one = all.get("tool");
  if (one === undefined) throw new Error("no webhook");
  return one;
};

const translate = (
  webhook: string,
  event: unknown,
  {
    objects,
    ...given
  }: { objects?: string[]; body?: unknown; query?: Record<string, string> } = {},
) =>
  translateEvent(
    compiled(webhook, objects),
    event,
    { body: undefined, headers: { "x-topic": "customers/update" }, query: {}, ...given },
    () => {},
  );

test("two lines make a webhook: the event is the record, an update of the only object", async () => {
  const event = { id: 7, first_name: "Ada" };
  expect(await translate("verify: bearer", event)).toEqual({
    kind: "event",
    operation: "updated",
    object: "contact",
    recordId: "7",
    time: undefined,
    eventId: undefined,
    record: "event",
  });
});

test.for([
  ["operation: type", { type: "contact.deleted" }, { operation: "deleted" }],
  ["operation: { from: op, table: { U: updated } }", { op: "u" }, { operation: "updated" }],
  [
    "time: { from: changed, zone: Europe/Luxembourg }",
    { changed: "2026-07-20 09:30:11" },
    { time: "2026-07-20T09:30:11+02:00" },
  ],
  [
    "operation: { from: active, table: { false: deleted, true: updated } }",
    { active: false },
    { operation: "deleted" },
  ],
  ["operation: { from: op, table: { 3: restored } }", { op: 3 }, { operation: "restored" }],
  [
    "operation: { from: op, table: { '+': updated, '-': deleted } }",
    { op: "+" },
    { operation: "updated" },
  ],
  [
    "operation: { from: op, table: { '1': updated, '-1': deleted } }",
    { op: 1 },
    { operation: "updated" },
  ],
  ["operation: { from: op, default: created }", {}, { operation: "created" }],
  ["operation: { value: deleted }", {}, { operation: "deleted" }],
  ["operation: $query.op", {}, { operation: "restored" }],
  ["operation: '$headers.`x-topic`'", {}, { operation: "updated" }],
  ["object: kind", { kind: "res.partner" }, { object: "res.partner" }],
  ["object: $body.kind", {}, { object: "person" }],
  ["object: { value: person }", {}, { object: "person" }],
  ["recordId: a.b", { a: { b: "x/1" } }, { recordId: "x/1" }],
  ["recordId: _id", { _id: "9007199254740993123" }, { recordId: "9007199254740993123" }],
  ["recordId: '$exists(no) ? no : id'", { no: null }, { recordId: "1" }],
  ["time: at", { at: "2026-11-20 09:30:11.482913" }, { time: "2026-11-20T09:30:11.482913Z" }],
  ["time: at", { at: false }, { time: undefined }],
  ["time: at", { at: null }, { time: undefined }],
  ["eventId: e", { e: "d-1" }, { eventId: "d-1" }],
  ["eventId: e", {}, { eventId: undefined }],
  ["record: data", { data: { x: 1 } }, { record: { x: 1 } }],
  ["record: data\nfetch: hubspot", {}, { record: undefined }],
  ["fetch: hubspot", {}, { record: undefined }],
  ["record: data\noperation: { value: deleted }", {}, { record: undefined }],
] as const)("%j of %j gives %j", async ([webhook, event, expected]) => {
  const given = { body: { kind: "person" }, query: { op: "restore" } };
  expect(await translate(`verify: bearer\n${webhook}`, { id: 1, ...event }, given)).toMatchObject({
    kind: "event",
    ...expected,
  });
});

test.for([
  [
    "operation: type",
    { type: "viewed" },
    "operation must say created, updated, deleted or restored",
  ],
  ["operation: type", {}, "operation is required: `type` found nothing"],
  ["operation: type", { type: { a: 1 } }, "operation must say"],
  ["object: kind", {}, "object is required"],
  ["object: kind", { kind: "a/b" }, "object must be a text without a slash"],
  ["object: kind", { kind: ["contact"] }, "object must be a text"],
  ["recordId: no", {}, "recordId is required: `no` found nothing"],
  ["recordId: no", { no: " " }, "recordId is required"],
  ["recordId: no", { no: 1.5 }, "recordId must be a text or a whole number"],
  ["recordId: no", { no: true }, "recordId must be a text or a whole number"],
  [
    "recordId: '\"x-\" & no'",
    { no: null },
    "recordId cannot be read: a part of the key is missing",
  ],
  ["recordId: $sum(no)", { no: "x" }, "recordId cannot be read: the expression failed"],
  ["time: at", { at: "yesterday" }, "time must be a date and time"],
  ["time: at", { at: "2026-11-20" }, "time must be a date and time"],
  ["time: at", { at: 1 }, "time must be a date and time"],
  ["record: data", {}, "record is required: `data` found nothing; to have it read"],
  ["record: data", { data: "text" }, "record must be one object"],
  ["record: data", { data: [{}, {}] }, "record must be one object"],
] as const)("%j of %j: %s", async ([webhook, event, problem]) => {
  const translated = await translate(`verify: bearer\n${webhook}`, { id: 1, ...event });
  if (translated.kind !== "problems") throw new Error(JSON.stringify(translated));
  const [first] = translated.problems;
  expect(`${first?.field} ${first?.rule}`).toContain(problem);
  expect(first?.rule).toContain("(webhooks.tool in the mapping)");
});

test("all problems of an event are reported together, without its values", async () => {
  const webhook = "verify: bearer\noperation: op\nrecordId: no\ntime: at\nrecord: data";
  const event = { op: "secret-op", at: "secret-time", data: "secret-data" };
  const translated = await translate(webhook, event);
  expect(translated).toMatchObject({
    kind: "problems",
    problems: [{ field: "operation" }, { field: "recordId" }, { field: "time" }],
  });
  expect(JSON.stringify(translated)).not.toContain("secret-");
});

test("a word whose table entry is null leaves the event out, whatever else it lacks", async () => {
  const webhook = "verify: bearer\nrecordId: no\noperation: { from: op, table: { ping: null } }";
  expect(await translate(webhook, { op: "PING" })).toEqual({ kind: "left_out" });
});

test.for([null, 7, "text", [], [{}]])("an event that is %j is a problem", async (event) => {
  expect(await translate("verify: bearer", event)).toMatchObject({
    kind: "problems",
    problems: [{ field: "event" }],
  });
});

test("keys of Object's prototype are ordinary names, or nothing", async () => {
  const event = JSON.parse('{"__proto__":{"id":"p"},"constructor":{"id":"c"}}') as unknown;
  const of = (recordId: string) => translate(`verify: bearer\nrecordId: ${recordId}`, event);
  expect(await of("constructor.id")).toMatchObject({ recordId: "c" });
  expect(await of("toString")).toMatchObject({ kind: "problems" });
  expect(await of("id")).toMatchObject({ kind: "problems" });
});

test("any JSON becomes an event, or problems of it: no expression throws", async () => {
  const webhook = compiled(
    "verify: bearer\noperation: op\nobject: o\nrecordId: a.b\ntime: t\neventId: e\nrecord: r",
  );
  const time = "2026-11-20T09:30:11Z";
  const key = fc.constantFrom("op", "o", "a", "b", "t", "e", "r", "__proto__", "constructor");
  const json = fc.oneof(
    fc.dictionary(key, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 6, noNullPrototype: true }),
    mutated({ op: "created", o: "contact", a: { b: "7" }, t: time, e: "1", r: {} }),
    mutated({ op: "created", o: "contact", a: { b: 7 }, t: 1_795_167_011, e: 1, r: { id: 7 } }),
  );
  const surroundings = { body: undefined, headers: {}, query: {} };
  const kinds = new Set<string>();
  const property = fc.asyncProperty(json, async (event) => {
    const translated = await translateEvent(webhook, event, surroundings, () => {});
    if (translated.kind === "problems") expect(translated.problems.length).toBeGreaterThan(0);
    kinds.add(translated.kind);
    structuredClone(translated);
  });
  await fc.assert(property, { numRuns: 500 });
  expect([...kinds].toSorted()).toEqual(["event", "problems"]);
});

describe("words of operations", () => {
  test.for([
    ["create", "created"],
    ["ContactCreated", "created"],
    ["contact.creation", "created"],
    ["NEW", "created"],
    ["record_edited", "updated"],
    ["contact.propertyChange", "updated"],
    ["customers/update", "updated"],
    ["On Deletion", "deleted"],
    ["deleted", "deleted"],
    ["undelete", "restored"],
    ["viewed", undefined],
    ["", undefined],
    ["un-deleted", undefined],
    ["not updated", undefined],
    ["delete.requested", undefined],
    ["contacts.deleted", "deleted"],
    ["companies/delete", "deleted"],
    ["CustomerRemoved", "deleted"],
    ["Mandant gelöscht deleted", undefined],
    ["contact.tag.removed", undefined],
    ["contact.removed_from_list", undefined],
    ["contact.note.deleted", undefined],
    ["company.contact.removed", undefined],
    ["contact.item.deleted", undefined],
    ["contact.contacts.deleted", "deleted"],
    ["phone_removed", undefined],
    ["deletion.cancelled", undefined],
    ["contact.delete_scheduled", undefined],
    ["contact.tag.added", "created"],
    ["created_or_deleted", undefined],
    ["toString", undefined],
    ["constructor", undefined],
  ] as const)("%s is %s", ([word, operation]) => {
    expect(operationOfWord(word)).toBe(operation);
  });
});

test("a deletion may name the webhook's own object", () => {
  expect(operationOfWord("vip-mandant.deleted")).toBe(undefined);
  expect(operationOfWord("vip-mandant.deleted", "VipMandant")).toBe("deleted");
  expect(operationOfWord("mandants.tag.removed", "mandant")).toBe(undefined);
  expect(operationOfWord("contact.company.removed", "contact")).toBe(undefined);
  expect(operationOfWord("customer_contact.deleted", "CustomerContact")).toBe("deleted");
  expect(operationOfWord("contact.deleted", "mandant")).toBe("deleted");
});

describe("times", () => {
  test.for([
    [0, "1970-01-01T00:00:00.000Z"],
    ["2026-11-20T09:30:11Z", "2026-11-20T09:30:11Z"],
    ["2026-11-20T09:30:11.5+01:00", "2026-11-20T09:30:11.5+01:00"],
    ["2026-11-20T09:30:11+0100", "2026-11-20T09:30:11+01:00"],
    ["2026-11-20T09:30:11-05", "2026-11-20T09:30:11-05:00"],
    ["2026-11-20 09:30:11", "2026-11-20T09:30:11Z"],
    ["2026-11-20 09:30:11.482913", "2026-11-20T09:30:11.482913Z"],
    ["2026-11-20T09:30:11.1234567891Z", "2026-11-20T09:30:11.123456789Z"],
    ["2026-11-20 09:30", "2026-11-20T09:30:00Z"],
    ["2026-11-20 09:30:11 UTC", "2026-11-20T09:30:11Z"],
    ["Fri, 20 Nov 2026 09:30:11 GMT", "2026-11-20T09:30:11.000Z"],
    [1_795_167_011, "2026-11-20T09:30:11.000Z"],
    [1_795_167_011_482, "2026-11-20T09:30:11.482Z"],
    ["1795167011482", "2026-11-20T09:30:11.482Z"],
    ["1795167011482913", "2026-11-20T09:30:11.482Z"],
    ["1795167011482913000", "2026-11-20T09:30:11.482Z"],
    ["1795167011.482", "2026-11-20T09:30:11.482Z"],
    ["2026-13-20T09:30:11Z", undefined],
    ["20.11.2026 09:30", undefined],
    ["11/20/2026 09:30:11", undefined],
    ["9".repeat(50), undefined],
    [-1, undefined],
    [Number.POSITIVE_INFINITY, undefined],
    [{}, undefined],
  ] as const)("%s is %s", ([given, time]) => {
    expect(eventTime(given)).toBe(time);
  });
});

describe("times without an offset, in a zone", () => {
  test.for([
    ["2026-11-20T09:30:11", "2026-11-20T08:30:11.000Z"],
    ["2026-07-20 09:30:11.5", "2026-07-20T07:30:11.500Z"],
    ["2026-10-25T01:59:59", "2026-10-24T23:59:59.000Z"],
    ["2026-10-25T03:00:00", "2026-10-25T02:00:00.000Z"],
    ["2026-03-29T01:59:59", "2026-03-29T00:59:59.000Z"],
    ["2026-03-29T03:00:00", "2026-03-29T01:00:00.000Z"],
    // The clock skips it.
    ["2026-03-29T02:30:00", "2026-03-29T01:30:00.000Z"],
    // The clock shows it twice.
    ["2026-10-25T02:00:00", "2026-10-25T02:00:00.000Z"],
    ["2026-10-25T02:59:59", "2026-10-25T02:00:00.000Z"],
    ["2026-10-25T02:30:00Z", "2026-10-25T02:30:00.000Z"],
    ["2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00.000Z"],
    [1_795_167_011, "2026-11-20T09:30:11.000Z"],
  ] as const)("%s is %s", ([given, time]) => {
    const told = eventTime(given, "Europe/Luxembourg") ?? "";
    expect(new Date(told).toISOString()).toBe(time);
  });

  test("digits of a second are kept; other zones have other hours", () => {
    expect(eventTime("2026-11-20 09:30:11.482913", "Europe/Luxembourg")).toBe(
      "2026-11-20T09:30:11.482913+01:00",
    );
    expect(eventTime("2026-11-01 01:30", "America/New_York")).toBe("2026-11-01T07:00:00.000Z");
    expect(eventTime("2026-11-20 09:30", "Asia/Kathmandu")).toBe("2026-11-20T09:30:00+05:45");
    expect(eventTime("2026-11-20 09:30", "America/St_Johns")).toBe("2026-11-20T09:30:00-03:30");
    expect(eventTime("2026-04-05 01:45", "Australia/Lord_Howe")).toBe("2026-04-04T15:30:00.000Z");
    expect(eventTime("2026-13-20T09:30:11", "Europe/Luxembourg")).toBe(undefined);
  });
});

describe("mistakes of the section", () => {
  test.for([
    ["events: data", "webhooks.tool.verify: must say how it is checked who posts: bearer, basic"],
    ["verify: hmac", "must say how it is checked who posts"],
    ["verify: { by: hmac }", "webhooks.tool.verify.header: is missing"],
    [
      "verify: { by: magic }",
      "webhooks.tool.verify.by: must be one of bearer, basic, header, query, body, hmac, standard-webhooks or none",
    ],
    ["verify: { by: bearer, secret: 8f3a-secret }", "must be the name of an environment variable"],
    ["verify: { by: hmac, header: X, algoritm: sha1 }", "did you mean algorithm?"],
    ["verify: { by: hmac, header: X, signed: '{timestamp}' }", "must contain {body} once"],
    [
      "verify: { by: hmac, header: X, signed: '{timestamp}.{body}' }",
      "say under `timestamp` which header",
    ],
    [
      "verify: { by: hmac, header: X, signed: '{body}', timestamp: { header: T } }",
      "must contain {timestamp}",
    ],
    ["verify: bearer\nid: _id", "did you mean recordId (the record's id) or eventId"],
    [
      "verify: bearer\nconstructor: x",
      "is not a known key here; the keys are verify, format, events",
    ],
    ["verify: bearer\nrecordID: x", "did you mean recordId?"],
    ["verify: bearer\nevents: 'a b'", "must be a path of names, such as data.items"],
    ["verify: bearer\nobject: contact", "for the constant write { value: contact }"],
    ["verify: bearer\noperation: deleted", "for the constant write { value: deleted }"],
    [
      "verify: bearer\noperation: { table: { a: gone } }",
      "must be one of created, updated, deleted, restored",
    ],
    ["verify: bearer\noperation: { table: { a: deleted } }", "needs either `from`"],
    [
      "verify: bearer\noperation: { value: deleted, default: created }",
      "neither `table` nor `default`",
    ],
    ["verify: bearer\nrecordId: '$evnt.id'", "there is no $evnt"],
    ["verify: bearer\nrecordId: '$event.id'", "there is no $event"],
    ["verify: bearer\ntime: $now()", "$now is not allowed"],
    ["verify: bearer\ntime: { from: $now(), zone: UTC }", "$now is not allowed"],
    [
      "verify: bearer\ntime: { from: changed, zone: Luxembourg }",
      "webhooks.tool.time.zone: must be the name of a time zone, for example Europe/Luxembourg",
    ],
    ["verify: bearer\ntime: { zone: UTC }", "webhooks.tool.time.from: is missing"],
    ["verify: bearer\ntime: { from: a, zon: UTC }", "did you mean zone?"],
    ["verify: bearer\ntime: [a]", "must be an expression, or a block with from and zone"],
    ["verify: bearer\nrecordId: '\"x\"'", "it is the same for every record"],
    ["verify: bearer\nrecordId: 'a +'", "the expression is not valid"],
    [
      "verify: bearer\nrecordId: _id\neventId: _id",
      "later changes of the record would count as second deliveries",
    ],
    [
      "verify: bearer\nfetch: odoo",
      "must be one of dynamics, espocrm, hubspot, pipedrive, redtail, salesforce, twenty, wealthbox",
    ],
  ] as const)("%j: %s", ([webhook, message]) => {
    expect(() => readMappingFile(fileWith(webhook), "m.yaml")).toThrow(message);
  });

  test("a secret that was written into the file is not repeated in the message", () => {
    const file = fileWith("verify: { by: bearer, secret: 8f3a-secret }");
    expect(() => readMappingFile(file, "m.yaml")).toThrow(/^(?![^]*8f3a)/);
  });

  test("without `object`, the mapping must have one object only", () => {
    const file = fileWith("verify: bearer", ["contact", "company"]);
    expect(() => readMappingFile(file, "m.yaml")).toThrow(
      "webhooks.tool: `object` is missing: the mapping has rules for contact, company",
    );
  });

  test("a name that cannot be part of an address is reported", () => {
    const file = fileWith("verify: bearer").replace("  tool:", "  My Tool:");
    expect(() => readMappingFile(file, "m.yaml")).toThrow("small letters, digits and hyphens");
  });

  test("the mistakes of several webhooks are reported together, each with its line", () => {
    const file = `${fileWith("verify: bearer\nrecordId: '$evnt.id'")}  other:\n    verify: basic\n    time: $now()\n`;
    expect(() => readMappingFile(file, "m.yaml")).toThrow(
      /m\.yaml:9: .*\$evnt[^]*m\.yaml:12: .*\$now/,
    );
  });

  test("a mistake of the structure hides no other one, and makes none", () => {
    const webhook = `verify: { by: magic }
id: _id
object: [contact]
operation: deleted
recordId: $evnt.id`;
    const file = `${fileWith(webhook)}  other: []\n  Third: { verify: bearer }\n`;
    const lines = (() => {
      try {
        readMappingFile(file, "m.yaml");
        return [];
      } catch (error) {
        return (error as Error).message.split("\n").slice(1);
      }
    })();
    expect(
      lines.map((line) => line.replace(/^.*m\.yaml:(\d+): (webhooks[^:]*): .*$/, "$1 $2")),
    ).toEqual([
      "8 webhooks.tool.verify.by",
      "9 webhooks.tool.id",
      "10 webhooks.tool.object",
      "11 webhooks.tool.operation",
      "12 webhooks.tool.recordId",
      "13 webhooks.other",
      "14 webhooks.Third",
    ]);
  });
});

test("records can be fetched from the CRMs that have a reader", () => {
  const readers = CRMS.filter(({ reader }) => reader !== undefined).map(({ name }) => name);
  expect([...FETCH_FROM]).toEqual(readers.toSorted());
});

describe("what the environment must have", () => {
  const problems = (verify: string, env: Record<string, string>) =>
    webhookProblems([compiled(`verify: ${verify}`).about], readConfig(env));

  test.for([
    [
      "bearer",
      {},
      "TOOL_WEBHOOK_SECRET or TOOL_WEBHOOK_SECRET_FILE is missing: the secret of /webhooks/json/tool (webhooks.tool.verify of the mapping)",
    ],
    ["basic", {}, "user:password of /webhooks/json/tool"],
    [
      "none",
      {},
      "webhooks.tool.verify of the mapping is none, so anybody may post there: set INGEST_AUTH=none",
    ],
    [
      "{ by: bearer, secret: SERVICE_TOKEN }",
      { SERVICE_TOKEN: "x" },
      "SERVICE_TOKEN is a variable of crmsync",
    ],
    ["{ by: bearer, secret: HTTP_HOST }", {}, "HTTP_HOST is a variable of crmsync"],
    ["bearer", { TOOL_WEBHOOK_SECRET: "a", TOOL_WEBHOOK_SECRET_FILE: "b" }, "are both set"],
    ["bearer", { TOOL_WEBHOOK_SECRET_FILE: "/no/such/file" }, "cannot be read (ENOENT)"],
    ["bearer", { TOOL_WEBHOOK_SECRET: "a".repeat(23) }, "shorter than 24 characters"],
    ["basic", { TOOL_WEBHOOK_SECRET: `${"a".repeat(24)} user:b` }, "shorter than 24 characters"],
  ] as const)("%s with %j: %s", ([verify, env, problem]) => {
    expect(problems(verify, env)).toEqual([expect.stringContaining(problem)]);
  });

  test.for([
    ["bearer", { TOOL_WEBHOOK_SECRET: "a".repeat(24) }],
    ["{ by: hmac, header: X-Signature }", { TOOL_WEBHOOK_SECRET: "dictated" }],
    ["{ by: bearer, secret: OTHER }", { OTHER: "a".repeat(24) }],
    ["{ by: bearer, secret: INGEST_TOKEN }", { INGEST_TOKEN: "a".repeat(24) }],
    ["none", { INGEST_AUTH: "none-from-anywhere" }],
    ["none", { INGEST_AUTH: "none" }],
  ] as const)("%s with %j is enough", ([verify, env]) => {
    expect(problems(verify, env)).toEqual([]);
  });
});
