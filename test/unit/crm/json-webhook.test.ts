/** Webhooks for the JSON of any tool: who may post, and which events their bodies become. */
import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import type { WebhookRequest } from "../../../src/intake/crm/connector.ts";
import {
  jsonEndpoint,
  type JsonWebhook,
  verifyJson,
} from "../../../src/intake/crm/json-webhook.ts";
import type { Verify } from "../../../src/intake/mapping/webhooks/verify-rule.ts";

const NOW = Date.parse("2026-11-20T09:30:11Z");
const SECONDS = String(NOW / 1000);
const BODY = '{"id":1}';

const request = (
  headers: Record<string, string>,
  parts: Partial<WebhookRequest> = {},
): WebhookRequest => ({
  path: "",
  urls: [],
  query: new URLSearchParams(),
  headers,
  body: Buffer.from(BODY),
  receivedAt: NOW,
  ...parts,
});

const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;
const sign = (text: string, algorithm = "sha256", encoding: "hex" | "base64" = "hex") =>
  createHmac(algorithm, "new").update(text).digest(encoding);

const hmac = {
  by: "hmac",
  secretName: "S",
  header: "x-signature",
  algorithm: "sha256",
  encoding: "hex",
  secretAs: "text",
  prefix: "",
  signed: "{body}",
  timestamp: undefined,
} as const satisfies Verify;

const timed = {
  ...hmac,
  signed: "{timestamp}.{body}",
  timestamp: { header: "x-timestamp", prefix: "", tolerance: 300 },
} as const satisfies Verify;

/** As payment services do: time and signatures in one header. */
const together = {
  ...timed,
  prefix: "v1=",
  timestamp: { header: "x-signature", prefix: "t=", tolerance: 300 },
} as const satisfies Verify;

const bearer = { by: "bearer", secretName: "S" } as const;
const password = { by: "basic", secretName: "S" } as const;
const header = { by: "header", secretName: "S", header: "x-api-key" } as const;
const inBody = { by: "body", secretName: "S", field: ["auth", "token"] } as const;
const signedTime = sign(`${SECONDS}.${BODY}`);

test.for<[Verify, Record<string, string>]>([
  [bearer, { authorization: "Bearer new" }],
  [bearer, { authorization: "bearer old" }],
  [password, { authorization: basic("new") }],
  [header, { "x-api-key": "new" }],
  [hmac, { "x-signature": sign(BODY) }],
  [hmac, { "x-signature": sign(BODY).toUpperCase() }],
  [{ ...hmac, prefix: "sha256=" }, { "x-signature": `sha256=${sign(BODY)}` }],
  [{ ...hmac, algorithm: "sha1" }, { "x-signature": sign(BODY, "sha1") }],
  [
    { ...hmac, algorithm: "sha512", encoding: "base64" },
    { "x-signature": sign(BODY, "sha512", "base64") },
  ],
  [timed, { "x-signature": signedTime, "x-timestamp": SECONDS }],
  [timed, { "x-signature": sign(`${NOW}.${BODY}`), "x-timestamp": String(NOW) }],
  [together, { "x-signature": `t=${SECONDS},v1=${"0".repeat(64)},v1=${signedTime}` }],
  [
    { ...timed, signed: "v0:{timestamp}:{body}" },
    { "x-signature": sign(`v0:${SECONDS}:${BODY}`), "x-timestamp": SECONDS },
  ],
  [
    { ...hmac, secretAs: "hex" },
    { "x-signature": createHmac("sha256", Buffer.from("0a0b", "hex")).update(BODY).digest("hex") },
  ],
  [{ by: "none" }, {}],
])("accepted: %j with %j", ([verify, headers]) => {
  expect(verifyJson(verify, request(headers), ["old", "new", "0a0b"])).toMatchObject({
    ok: true,
  });
});

test.for(["", "zz", "0azz", "0a0"])("the secret %j is not hex, and signs nothing", (secret) => {
  const verify = { ...hmac, secretAs: "hex" } as const;
  const key = Buffer.from(secret, "hex");
  const headers = { "x-signature": createHmac("sha256", key).update(BODY).digest("hex") };
  expect(verifyJson(verify, request(headers), [secret])).toEqual({
    ok: false,
    why: "the configured secret is not hex",
  });
});

test("the secret may be a parameter of the address, which expressions do not see", async () => {
  const verify = { by: "query", secretName: "S", parameter: "key" } as const;
  const isVerified = (query: string) =>
    verifyJson(verify, request({}, { query: new URLSearchParams(query) }), ["a b", "new"]).ok;
  expect(["key=new", "key=a+b", "key=", "", "secret=new"].map(isVerified)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
  let seen: unknown;
  const webhook: JsonWebhook = {
    name: "tool",
    verify,
    fetch: undefined,
    async translate({ query }) {
      seen = query;
      return { kind: "translated", events: [] };
    },
  };
  const query = new URLSearchParams("key=new&operation=deleted");
  await jsonEndpoint(webhook).toEvents(request({}, { query }), false);
  expect(seen).toEqual({ operation: "deleted" });
});

test.for([
  ['{"auth":{"token":"new"}}', true],
  ['{"auth":{"token":"newer"}}', false],
  ['{"auth":{"token":""}}', false],
  ['{"auth":"new"}', false],
  ['[{"auth":{"token":"new"}}]', false],
  ["new", false],
  ["", false],
] as const)("the secret may be in the body: %s is %s", ([body, ok]) => {
  const verified = (sent: Buffer | undefined) =>
    verifyJson(inBody, { ...request({}), body: sent }, ["old", "new"]);
  expect(verified(undefined)).toEqual({ ok: true, needsBody: true });
  expect(verified(Buffer.from(body)).ok).toBe(ok);
});

test.for<[Verify, Record<string, string>, string]>([
  [bearer, {}, "bearer token"],
  [bearer, { authorization: "Bearer newer" }, "bearer token"],
  [bearer, { authorization: basic("new") }, "bearer token"],
  [bearer, { authorization: "Bearer old new" }, "bearer token"],
  [password, { authorization: "Bearer new" }, "user and password"],
  [password, { authorization: "Basic %%%" }, "user and password"],
  [header, { "x-api-key": "" }, "the header x-api-key"],
  [hmac, {}, "the header x-signature is missing"],
  [hmac, { "x-signature": "" }, "the header x-signature is missing"],
  [hmac, { "x-signature": sign(`${BODY} `) }, "is not that of the secret"],
  [hmac, { "x-signature": sign(BODY, "sha1") }, "is not that of the secret"],
  [hmac, { "x-signature": sign(BODY, "sha256", "base64") }, "is not that of the secret"],
  [
    { ...hmac, encoding: "base64" },
    { "x-signature": sign(BODY, "sha256", "base64").toLowerCase() },
    "is not that of the secret",
  ],
  [{ ...hmac, prefix: "sha256=" }, { "x-signature": sign(BODY) }, "with sha256=… is missing"],
  [{ ...hmac, prefix: "sha256=" }, { "x-signature": "sha256=" }, "with sha256=… is missing"],
  [timed, { "x-signature": signedTime }, "the time in x-timestamp"],
  [timed, { "x-signature": signedTime, "x-timestamp": "1e9" }, "the time in x-timestamp"],
  [
    timed,
    { "x-signature": sign(`1000000000.${BODY}`), "x-timestamp": "1000000000" },
    "the time in x-timestamp is not within 300 s of now",
  ],
  [timed, { "x-signature": signedTime, "x-timestamp": `${SECONDS}0` }, "the time in x-timestamp"],
  [
    timed,
    { "x-signature": signedTime, "x-timestamp": String(NOW / 1000 + 1) },
    "is not that of the secret",
  ],
  [
    together,
    { "x-signature": `t=${SECONDS},${"v1=0,".repeat(9)}v1=${signedTime}` },
    "is not that of the secret",
  ],
])("not accepted: %j with %j: %s", ([verify, headers, why]) => {
  const verified = verifyJson(verify, request(headers), ["old", "new"]);
  expect(verified).toMatchObject({ ok: false, why: expect.stringContaining(why) as string });
});

test("without a secret nothing is accepted", () => {
  const headers = {
    authorization: "Bearer ",
    "x-signature": createHmac("sha256", "").digest("hex"),
  };
  for (const verify of [bearer, password, header, hmac]) {
    expect(verifyJson(verify, request(headers, { body: Buffer.alloc(0) }), []).ok).toBe(false);
  }
});

test("a request is identified by its time and body, whichever of its signatures counts", () => {
  const key = (signature: string) => {
    const verified = verifyJson(together, request({ "x-signature": signature }), ["old", "new"]);
    return verified.ok ? verified.requestKey : undefined;
  };
  const old = createHmac("sha256", "old").update(`${SECONDS}.${BODY}`).digest("hex");
  const both = key(`t=${SECONDS},v1=${old},v1=${signedTime}`);
  expect(both).toBeTypeOf("string");
  expect(key(`t=${SECONDS},v1=${old}`)).toBe(both);
  expect(key(`t=${SECONDS},v1=${signedTime}`)).toBe(both);
});

type Event = Extract<
  Awaited<ReturnType<JsonWebhook["translate"]>>,
  { kind: "translated" }
>["events"][number];

const whole = {
  kind: "event",
  operation: "updated",
  object: "contact",
  recordId: "1",
  time: "2026-11-20T09:30:11Z",
  eventId: undefined,
  record: "event",
} as const;

async function eventsOf(events: readonly Event[], fetch?: string, body = BODY) {
  const webhook: JsonWebhook = {
    name: "tool",
    verify: bearer,
    fetch,
    translate: async () => ({ kind: "translated", events }),
  };
  return jsonEndpoint(webhook).toEvents(request({}, { body: Buffer.from(body) }), false);
}

const idOf = async (event: object, given: unknown = { id: 1 }) =>
  (await eventsOf([{ translated: { ...whole, ...event }, given }])).events[0]?.id;

test("a second delivery has the same id, and another event has another", async () => {
  const first = await idOf({});
  expect(await idOf({})).toBe(first);
  for (const other of [
    { operation: "deleted" },
    { recordId: "2" },
    { time: "2026-11-20T09:30:12Z" },
  ]) {
    expect(await idOf(other)).not.toBe(first);
  }
  expect(await idOf({}, { id: 1, name: "B" })).not.toBe(first);
  const delivery = await idOf({ eventId: "d-1" });
  expect(delivery).toMatch(/^d-1-/);
  expect(await idOf({ eventId: "d-1", time: undefined }, { id: 1, tries: 2 })).toBe(delivery);
  // One delivery may list several events.
  expect(await idOf({ eventId: "d-1", recordId: "2" })).not.toBe(delivery);
});

test("without an id and a time, an equal body may be a new event", async () => {
  expect(await idOf({ time: undefined })).not.toBe(await idOf({ time: undefined }));
});

test("a record that is missing is fetched, unless it was deleted", async () => {
  const thin = { ...whole, record: undefined };
  const deleted = { ...thin, operation: "deleted" } as const;
  const { events } = await eventsOf(
    [
      { translated: thin, given: {} },
      { translated: deleted, given: {} },
      { translated: whole, given: { id: 1 } },
    ],
    "hubspot",
  );
  expect(events.map(({ data }) => data)).toEqual([
    { fetch: "hubspot" },
    undefined,
    { record: { id: 1 }, partial: true },
  ]);
});

test("problems keep the place of their event in the body", async () => {
  const problems = [{ field: "recordId", rule: "is required", kind: "nothing" }];
  const { events, each } = await eventsOf([
    { translated: { kind: "left_out" }, given: {} },
    { translated: { kind: "problems", problems }, given: {} },
    { translated: whole, given: {} },
  ]);
  expect(events).toHaveLength(1);
  expect(each).toEqual({ of: 3, positions: [2], problems: [{ index: 1, ...problems[0] }] });
});

test("expressions see the parameters and headers, without those that hold secrets", async () => {
  const seen: unknown[] = [];
  const webhook: JsonWebhook = {
    name: "tool",
    verify: header,
    fetch: undefined,
    async translate({ headers, query }) {
      seen.push(headers, query);
      return { kind: "translated", events: [] };
    },
  };
  const headers = { authorization: "a", cookie: "b", "x-api-key": "c", "x-topic": "d" };
  const query = new URLSearchParams("operation=deleted");
  await jsonEndpoint(webhook).toEvents(request(headers, { query }), false);
  expect(seen).toEqual([{ "x-topic": "d" }, { operation: "deleted" }]);
});

test.for([
  ["{", {}, "the body is not valid JSON"],
  ["a=1", { "content-type": "multipart/form-data; boundary=x" }, "neither JSON nor a form"],
  ["", { "content-type": "application/x-www-form-urlencoded" }, "the body is not valid JSON"],
  [
    Array.from({ length: 1001 }, (_, index) => `a${index}=1`).join("&"),
    { "content-type": "application/x-www-form-urlencoded" },
    "the form has more than 1000 fields",
  ],
  ["name=M%FCller", { "content-type": "application/x-www-form-urlencoded" }, "in the charset"],
  [
    "name=x",
    { "content-type": "application/x-www-form-urlencoded; charset=klingon" },
    "in the charset",
  ],
  [`${"[".repeat(100)}${"]".repeat(100)}`, {}, "nested deeper than 60 levels"],
  [`${"[".repeat(1e6)}${"]".repeat(1e6)}`, {}, "nested deeper than 60 levels"],
] as const)("the body %.20s is not accepted", async ([body, headers, why]) => {
  const webhook: JsonWebhook = {
    name: "tool",
    verify: bearer,
    fetch: undefined,
    translate: () => Promise.reject(new Error("not reached")),
  };
  const sent = request(headers, { body: Buffer.from(body) });
  await expect(async () => jsonEndpoint(webhook).toEvents(sent, false)).rejects.toThrow(why);
});

const BOUNDARY = "0123456789abcdef0123456789abcdef";

const part = (name: string, value: string) =>
  `--${BOUNDARY}\r\ncontent-disposition: form-data; ${name}\r\n\r\n${value}\r\n`;

test.for([
  ["application/x-www-form-urlencoded", "id=1&name=Zo%C3%AB+M&tag=a&tag=b&empty=&__proto__=x"],
  [
    `multipart/form-data; boundary=${BOUNDARY}`,
    `${[
      ['name="id"', "1"],
      ['name="name"', "Zoë M"],
      ['name="tag"', "a"],
      ['name="tag"', "b"],
      ['name="empty"', ""],
      ['name="__proto__"', "x"],
      ['name="file"; filename="a.txt"', "no part of the record"],
    ]
      .map(([name = "", value = ""]) => part(name, value))
      .join("")}--${BOUNDARY}--\r\n`,
  ],
  [
    "application/x-www-form-urlencoded; charset=ISO-8859-1",
    "id=1&name=Zo%EB+M&tag=a&tag=b&empty=&__proto__=x",
  ],
  ["application/x-www-form-urlencoded", '{"id":"1","name":"a client that calls JSON a form"}'],
] as const)("a form is an object of its fields: %s", async ([type, body]) => {
  const seen: unknown[] = [];
  const webhook: JsonWebhook = {
    name: "tool",
    verify: bearer,
    fetch: undefined,
    async translate(content) {
      seen.push(content.body);
      return { kind: "translated", events: [] };
    },
  };
  const sent = request({ "content-type": type }, { body: Buffer.from(body) });
  await jsonEndpoint(webhook).toEvents(sent, false);
  const expected: unknown = body.startsWith("{")
    ? (JSON.parse(body) as unknown)
    : Object.fromEntries([
        ["id", "1"],
        ["name", "Zoë M"],
        ["tag", ["a", "b"]],
        ["empty", ""],
        ["__proto__", "x"],
      ]);
  expect(seen).toEqual([expected]);
});
