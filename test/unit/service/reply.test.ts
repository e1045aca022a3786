import { expect, test } from "vitest";
import {
  classify,
  type Operation,
  type HttpResponse,
  type Sent,
} from "../../../src/service/reply.ts";

const JSON_TYPE = "application/json; charset=utf-8";
const answer = (
  status: number,
  body: unknown = {},
  contentType: string = JSON_TYPE,
): HttpResponse => ({
  status,
  contentType,
  body: typeof body === "string" ? body : JSON.stringify(body),
});
const sent = (operation: Operation, payload = {}): Sent => ({
  operation,
  crmCode: "4711",
  payload: { crmCode: "4711", ...payload },
  secrets: ["token-1"],
});
const done = { crmCode: "4711", status: "ok" };

test.for<[string, Operation, HttpResponse, object]>([
  ["201 on create", "create", answer(201, done), { kind: "created" }],
  ["409 on create", "create", answer(409), { kind: "exists" }],
  ["200 on update", "update", answer(200, done), { kind: "updated" }],
  ["404 on update", "update", answer(404), { kind: "missing" }],
  ["200 on get", "get", answer(200, done), { kind: "found", body: done }],
  ["404 on get", "get", answer(404), { kind: "missing" }],
  [
    "a page with a next one",
    "list",
    answer(200, { businessRelations: [done], nextCursor: "c" }),
    { kind: "page", relations: [done], nextCursor: "c" },
  ],
  [
    "the last page",
    "list",
    answer(200, { businessRelations: [], nextCursor: null }),
    { kind: "page", relations: [] },
  ],
  [
    "the schema",
    "schema-config",
    answer(200, { fields: { branch: { values: ["a"] } } }),
    { kind: "schema", fields: { branch: { values: ["a"] } } },
  ],
  [
    "400",
    "update",
    answer(400, { error: "no", code: 1 }),
    { kind: "rejected", status: 400, error: "no" },
  ],
  ["422", "list", answer(422, { error: "no" }), { kind: "rejected", status: 422, error: "no" }],
  [
    "400 without a reason",
    "create",
    answer(400, "<html>", "text/html"),
    { kind: "rejected", status: 400, error: "no reason given" },
  ],
  ["401", "get", answer(401), { kind: "denied", cause: "token" }],
  [
    "403 with our address",
    "get",
    answer(403, { code: "IP_WHITELIST_BLOCKED", ip: "2001:db8::1" }),
    { kind: "denied", cause: "address", ip: "2001:db8::1" },
  ],
  ["403 of something before it", "get", answer(403, "no"), { kind: "denied", cause: "address" }],
  [
    "403 with no address in it",
    "get",
    answer(403, { ip: "<b>" }),
    { kind: "denied", cause: "address" },
  ],
  ["429", "create", answer(429), { kind: "throttled" }],
])("%s", ([, operation, raw, reply]) => {
  expect(classify(raw, sent(operation))).toEqual(reply);
});

test.for<[Operation, HttpResponse, string, boolean]>([
  ["create", answer(500), "server_error", true],
  ["get", answer(503), "server_error", false],
  ["create", answer(202, done), "undeclared_success", true],
  ["update", answer(204, ""), "undeclared_success", true],
  ["create", answer(200, done), "undeclared_success", true],
  ["get", answer(302), "redirect", false],
  ["update", answer(308), "redirect", false],
  ["create", answer(404), "undeclared_status", false],
  ["update", answer(409), "undeclared_status", false],
  ["update", answer(405), "undeclared_status", false],
  ["create", answer(415), "undeclared_status", false],
  ["get", answer(418), "undeclared_status", false],
  ["create", answer(407), "proxy", false],
  ["create", answer(201, ""), "empty_body", true],
  ["update", answer(200, "<html>ok</html>", "text/html"), "wrong_content_type", true],
  ["update", answer(200, "{"), "not_json", true],
  ["create", answer(201, []), "unexpected_body", true],
  ["create", answer(201, { ...done, crmCode: "4712" }), "unexpected_body", true],
  ["get", answer(200, { crmCode: "4712" }), "unexpected_body", false],
  ["list", answer(200, { businessRelations: [1] }), "unexpected_body", false],
  ["list", answer(200, { businessRelations: [], nextCursor: 7 }), "unexpected_body", false],
  ["schema-config", answer(200, { fields: [] }), "unexpected_body", false],
])("%s answered %o is unavailable: %s", ([operation, raw, reason, ambiguous]) => {
  expect(classify(raw, sent(operation))).toEqual({
    kind: "unavailable",
    reason,
    ambiguous,
    status: raw.status,
  });
});

function errorOf(text: string, payload: object): string {
  const reply = classify(answer(400, { error: text }), sent("update", payload));
  return reply.kind === "rejected" ? reply.error : "";
}

test("The service's words lose what is nobody's business", () => {
  const payload = { firstName: "Ada", email: "ada@example.com", language: "it", branch: ["North"] };
  const text =
    "Ada: ada@example.com of 4711 in North, see https://api.example.com/v1.1?x=1 (token-1)";
  expect(errorOf(text, payload)).toBe(
    "[value]: [value] of [value] in [value], see [address] ([secret])",
  );
  expect(errorOf("it is in italic", payload)).toBe("[value] is in italic");
});

test("Words of the specification stay readable", () => {
  const text = "relationStatus must be active or terminated";
  expect(errorOf(text, { relationStatus: "active" })).toBe(text);
});

test("The service's words are cut, and lose their control characters", () => {
  expect(errorOf("a\u0000\n\u202eb", {})).toBe("a b");
  expect(errorOf("x".repeat(5000), {})).toHaveLength(300);
});
