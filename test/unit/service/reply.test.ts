import { expect, test } from "vitest";
import {
  classify,
  type Operation,
  type HttpResponse,
  type SentRequest,
} from "../../../src/core/service/reply.ts";

const JSON_TYPE = "application/json; charset=utf-8";
const response = (
  status: number,
  body: unknown = {},
  contentType: string = JSON_TYPE,
): HttpResponse => ({
  status,
  contentType,
  body: typeof body === "string" ? body : JSON.stringify(body),
});
const BLOCKED = { error: "FORBIDDEN", message: "no", code: "IP_WHITELIST_BLOCKED" };
const sent = (operation: Operation, payload = {}): SentRequest => ({
  operation,
  crmCode: "4711",
  payload: { crmCode: "4711", ...payload },
  secrets: ["token-1"],
});
const done = { crmCode: "4711", status: "ok" };
const refusal = (code: number) => response(code, { error: "no", code });
const HTML = ["<html>no</html>", "text/html"] as const;

test.for<[string, Operation, HttpResponse, object]>([
  ["201 on create", "create", response(201, done), { kind: "created" }],
  ["409 on create", "create", refusal(409), { kind: "exists" }],
  ["200 on update", "update", response(200, done), { kind: "updated" }],
  ["404 on update", "update", refusal(404), { kind: "missing" }],
  ["200 on get", "get", response(200, done), { kind: "found", body: done }],
  ["404 on get", "get", refusal(404), { kind: "missing" }],
  [
    "a page before the last",
    "list",
    response(200, { businessRelations: [done], nextCursor: "c" }),
    { kind: "page", relations: [done], nextCursor: "c" },
  ],
  [
    "the last page",
    "list",
    response(200, { businessRelations: [], nextCursor: null }),
    { kind: "page", relations: [] },
  ],
  [
    "the schema",
    "schema-config",
    response(200, { fields: { branch: { values: ["a"] } } }),
    { kind: "schema", fields: { branch: { values: ["a"] } } },
  ],
  [
    "the schema, with fields that are none",
    "schema-config",
    response(200, { fields: { riskScore: null, other: ["a"] } }),
    { kind: "schema", fields: { riskScore: null, other: ["a"] } },
  ],
  [
    "400",
    "update",
    response(400, { error: "no", code: 1 }),
    { kind: "rejected", status: 400, error: "no" },
  ],
  ["422", "list", refusal(422), { kind: "rejected", status: 422, error: "no" }],
  ["413", "update", refusal(413), { kind: "rejected", status: 413, error: "no" }],
  [
    "400 without a reason",
    "create",
    response(400, { error: "", code: 400 }),
    { kind: "rejected", status: 400, error: "no reason given" },
  ],
  ["401", "get", refusal(401), { kind: "denied", cause: "token" }],
  [
    "403 with our address",
    "get",
    response(403, { ...BLOCKED, ip: "2001:db8::1" }),
    { kind: "denied", cause: "address", ip: "2001:db8::1" },
  ],
  [
    "403 with no address in it",
    "get",
    response(403, { ...BLOCKED, ip: "<b>" }),
    { kind: "denied", cause: "address" },
  ],
  [
    "403 of the service for one record",
    "update",
    response(403, { error: "not 4711", code: 403 }),
    {
      kind: "unavailable",
      reason: "forbidden",
      ambiguous: false,
      status: 403,
      error: "not [value]",
    },
  ],
  [
    "403 of a firewall for one record",
    "update",
    response(403, ...HTML),
    { kind: "unavailable", reason: "forbidden", ambiguous: true, status: 403 },
  ],
  [
    "403 that only looks like a blocked address",
    "get",
    response(403, JSON.stringify(BLOCKED), "text/plain"),
    { kind: "unavailable", reason: "forbidden", ambiguous: false, status: 403 },
  ],
  ...[
    { ...BLOCKED, code: "PLAN_LIMIT" },
    { ...BLOCKED, error: undefined },
    { ...BLOCKED, message: undefined },
  ].map((body): [string, Operation, HttpResponse, object] => [
    `403 with ${JSON.stringify(body)}`,
    "get",
    response(403, body),
    { kind: "unavailable", reason: "forbidden", ambiguous: false, status: 403 },
  ]),
  ...(["create", "update", "get"] as const).flatMap((operation) =>
    ["4711", " 4711\u200b", "４７１１"].map(
      (crmCode): [string, Operation, HttpResponse, object] => [
        `200 on ${operation} with the crmCode ${JSON.stringify(crmCode)}`,
        operation,
        response(200, { crmCode }),
        crmCode !== "4711"
          ? { kind: "renamed" }
          : operation === "get"
            ? { kind: "found", body: { crmCode } }
            : { kind: operation === "create" ? "created" : "updated" },
      ],
    ),
  ),
  ["429", "create", response(429), { kind: "throttled" }],
  ["429 with a page", "create", response(429, ...HTML), { kind: "throttled" }],
  ["200 on create", "create", response(200, done), { kind: "created" }],
  ["201 on update", "update", response(201, done), { kind: "updated" }],
  ["201 on create without a body", "create", response(201, ""), { kind: "accepted" }],
  ["200 on update without a body", "update", response(200, "", ""), { kind: "accepted" }],
  ["204 on update", "update", response(204, ""), { kind: "accepted" }],
  ["202 on create", "create", response(202, done), { kind: "accepted" }],
  ["202 on create without a body", "create", response(202, ""), { kind: "accepted" }],
  ["201 on create with a blank body", "create", response(201, " \n"), { kind: "accepted" }],
  ...["application/json", "Application/JSON;charset=utf-8", "application/problem+json"].map(
    (type): [string, Operation, HttpResponse, object] => [
      `JSON as ${type}`,
      "update",
      response(200, done, type),
      { kind: "updated" },
    ],
  ),
  [
    "the last page, with an empty cursor",
    "list",
    response(200, { businessRelations: [], nextCursor: "" }),
    { kind: "page", relations: [] },
  ],
])("%s", ([, operation, raw, reply]) => {
  expect(classify(raw, sent(operation))).toEqual(reply);
});

test.for<[Operation, HttpResponse, string, boolean]>([
  ["create", response(500), "server_error", true],
  ["get", response(503), "server_error", false],
  ["create", response(502), "gateway_error", true],
  ["get", response(504, ...HTML), "gateway_error", false],
  ["create", response(202, {}), "undeclared_success", true],
  ["update", response(204, "<html>ok</html>", "text/html"), "wrong_content_type", true],
  ["get", response(204, ""), "empty_body", false],
  ["get", response(206, done), "undeclared_success", false],
  // A proxy's page, or a body that is not the service's.
  ...[400, 401, 404, 409, 413, 422].flatMap((status) =>
    [
      response(status, ...HTML),
      response(status, ""),
      response(status, { error: "no" }),
      response(status, { error: "no", code: "NOT_FOUND" }),
      response(status, { code: status }),
      response(status, [{ error: "no", code: status }]),
      response(status, JSON.stringify({ error: "no", code: status }), "text/plain"),
    ].map((raw): [Operation, HttpResponse, string, boolean] => {
      return [status === 409 ? "create" : "update", raw, "foreign_refusal", true];
    }),
  ),
  ["get", response(404, ...HTML), "foreign_refusal", false],
  ["get", response(302), "redirect", false],
  ["create", response(303), "redirect", true],
  ["update", response(308), "redirect", true],
  ["create", refusal(404), "undeclared_status", false],
  ["update", refusal(409), "undeclared_status", false],
  ["update", response(405), "undeclared_status", false],
  ["create", response(415), "undeclared_status", false],
  ["get", response(418), "undeclared_status", false],
  ["create", response(407), "proxy", false],
  ["update", response(200, "<html>ok</html>", "text/html"), "wrong_content_type", true],
  ["update", response(200, done, "application/jsonp"), "wrong_content_type", true],
  ["update", response(200, "{"), "not_json", true],
  ["update", response(200, { ...done, crmCode: "4712" }), "unexpected_body", true],
  ["create", response(201, []), "unexpected_body", true],
  ["create", response(201, { ...done, crmCode: "4712" }), "unexpected_body", true],
  ["get", response(200, { crmCode: "4712" }), "unexpected_body", false],
  ["list", response(200, { businessRelations: [1] }), "unexpected_body", false],
  ["list", response(200, { businessRelations: [{ crmCode: "1" }, {}] }), "unexpected_body", false],
  ["list", response(200, { businessRelations: [{ crmCode: 1 }] }), "unexpected_body", false],
  ["list", response(200, { businessRelations: [{ crmCode: "" }] }), "unexpected_body", false],
  ["list", response(200, { businessRelations: [], nextCursor: 7 }), "unexpected_body", false],
  ["schema-config", response(200, { fields: [] }), "unexpected_body", false],
])("%s with the response %o is unavailable: %s", ([operation, raw, reason, ambiguous]) => {
  expect(classify(raw, sent(operation))).toEqual({
    kind: "unavailable",
    reason,
    ambiguous,
    status: raw.status,
  });
});

function errorOf(text: string, payload: object): string {
  const reply = classify(response(400, { error: text, code: 400 }), sent("update", payload));
  return reply.kind === "rejected" ? reply.error : "";
}

test("the service's error text is kept without values, addresses and secrets", () => {
  const payload = { firstName: "Ada", email: "ada@example.com", language: "it", branch: ["North"] };
  const text =
    "Ada: ada@example.com of 4711 in North, see https://api.example.com/v1.1?x=1 (token-1)";
  expect(errorOf(text, payload)).toBe(
    "[value]: [value] of [value] in [value], see [address] ([secret])",
  );
  expect(errorOf("it is in italic", payload)).toBe("[value] is in italic");
});

test("a value is recognised in another case, and a long one by its beginning", () => {
  expect(errorOf("ada@example.com is in use", { email: "Ada@Example.com" })).toBe(
    "[value] is in use",
  );
  expect(errorOf("must be in use", { nationality: "BE" })).toBe("must be in use");
  const address = "Bahnhofstrasse 1 ".repeat(300);
  expect(errorOf(`too long: ${address}`, { address })).toBe("too long: [value]");
  expect(errorOf(`too long: ${address.slice(0, 200)}…`, { address })).toBe("too long: [value]");
  const largest = "$1.*(".repeat(13_000);
  expect(errorOf(`no: ${largest}`, { address: largest })).toBe("no: [value]");
});

test("values from the specification stay readable", () => {
  const text = "relationStatus must be active or terminated";
  expect(errorOf(text, { relationStatus: "active" })).toBe(text);
});

test("the service's error text is shortened and loses its control characters", () => {
  expect(errorOf("a\u0000\n\u202eb", {})).toBe("a b");
  expect(errorOf("x".repeat(5000), {})).toHaveLength(300);
});

test("a crmCode in another case or Unicode form is the same one, named otherwise", () => {
  const answered = (asked: string, named: string) =>
    classify(response(200, { crmCode: named }), { operation: "get", crmCode: asked, secrets: [] })
      .kind;
  expect(answered("A-Straße", "a-strasse")).toBe("renamed");
  expect(answered("Zu\u0308rich", "Z\u00fcrich")).toBe("renamed");
  expect(answered("A1", "A2")).toBe("unavailable");
  expect(answered("\u200b", "")).toBe("unavailable");
});
