import { describe, expect, test } from "vitest";
import { isSandbox } from "./service.ts";
import type { Answer, Service } from "./service.ts";
import { NAMED_ENDPOINTS } from "./spec-tables.ts";

const PATH = "/business-relations";
const at = (crmCode: string): string => `${PATH}/${encodeURIComponent(crmCode)}`;
const person = (crmCode: string): Record<string, string> => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
});

function expectError(answer: Answer, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.headers.get("content-type")).toContain("application/json");
  expect(answer.json).toEqual({ error: expect.any(String) as string, code: status });
}

/** The five operations, one by one. */
export function describeEndpoints(service: () => Service): void {
  describe("Endpoints, POST /business-relations", () => {
    test("answers 201 with crmCode and status", async () => {
      const crmCode = service().freshCode();
      const answer = await service().ask("POST", PATH, { body: person(crmCode) });
      expect(answer.status).toBe(201);
      expect(answer.json).toEqual({ crmCode, status: expect.any(String) as string });
    });

    test("answers 409 to a crmCode that exists, and keeps what is there", async () => {
      const { ask, freshCode } = service();
      const crmCode = freshCode();
      await ask("POST", PATH, { body: person(crmCode) });
      const again = await ask("POST", PATH, { body: { ...person(crmCode), firstName: "Eva" } });
      expectError(again, 409);
      expect((await ask("GET", at(crmCode))).json).toMatchObject({ firstName: "Ada" });
    });

    for (const [name, body] of [
      ["broken JSON", '{"type": "Person"'],
      ["an array", "[]"],
      ["a string", '"Person"'],
      ["null", "null"],
      ["an empty object", "{}"],
    ] as const) {
      test(`answers 400 to ${name}`, async () => {
        expectError(await service().ask("POST", PATH, { body }), 400);
      });
    }
    test("answers 400 without a body", async () => {
      expectError(await service().ask("POST", PATH), 400);
    });
  });

  describe("Endpoints, GET /business-relations/{crmCode}", () => {
    test("answers 404 to a crmCode that does not exist", async () => {
      expectError(await service().ask("GET", at(service().freshCode())), 404);
    });

    for (const [name, rest] of [
      ["a slash", "a/b"],
      ["percent, question mark and hash", "100%?#"],
      ["a blank and a plus", "a b+c"],
      ["letters of other scripts and an emoji", "müller-李-🏦"],
      ["what looks encoded", "a%2Fb"],
      ["quotes and brackets", `a"'<>[]{}|\\^`],
    ] as const) {
      test(`finds a crmCode with ${name}`, async () => {
        const { ask, freshCode } = service();
        const crmCode = `${freshCode()} ${rest}`;
        expect((await ask("POST", PATH, { body: person(crmCode) })).status).toBe(201);
        const found = await ask("GET", at(crmCode));
        expect(found.status).toBe(200);
        expect(found.json).toMatchObject(person(crmCode));
      });
    }
    if (isSandbox) {
      test("tells crmCodes apart by case and by Unicode form", async () => {
        const { ask, freshCode } = service();
        const crmCode = freshCode();
        await ask("POST", PATH, { body: person(`${crmCode}-\u00e9`) });
        expectError(await ask("GET", at(`${crmCode}-\u00c9`)), 404);
        expectError(await ask("GET", at(`${crmCode}-e\u0301`)), 404);
      });
    }
  });

  describe("Endpoints, PUT /business-relations/{crmCode}", () => {
    test("answers 200 with crmCode and status, and the next GET shows it", async () => {
      const { ask, freshCode } = service();
      const crmCode = freshCode();
      await ask("POST", PATH, { body: person(crmCode) });
      const answer = await ask("PUT", at(crmCode), { body: { ...person(crmCode), city: "Bern" } });
      expect(answer.status).toBe(200);
      expect(answer.json).toEqual({ crmCode, status: expect.any(String) as string });
      expect((await ask("GET", at(crmCode))).json).toMatchObject({ city: "Bern" });
    });

    test("answers 400 to invalid input", async () => {
      const { ask, freshCode } = service();
      const crmCode = freshCode();
      await ask("POST", PATH, { body: person(crmCode) });
      const answer = await ask("PUT", at(crmCode), { body: { ...person(crmCode), email: "x" } });
      expectError(answer, 400);
    });
  });

  if (isSandbox) {
    describe("Endpoints listed by name only", () => {
      for (const endpoint of NAMED_ENDPOINTS) {
        test(`${endpoint} answers 501 and says so`, async () => {
          const [method, path] = endpoint.split(" ") as [string, string];
          const answer = await service().ask(method, path);
          expectError(answer, 501);
          expect(answer.json["error"]).toContain(`${method} ${path.split("/x")[0]!}`);
        });
      }
    });
  }
}

export function describeAuthentication(service: () => Service): void {
  describe("Authentication 6: missing or invalid token", () => {
    const cases: [string, Record<string, string>][] = [
      ["an invented token", { authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl" }],
      ["another scheme", { authorization: "Basic dXNlcjpwYXNz" }],
      ["no token", { authorization: "Bearer" }],
      ["an empty header", { authorization: "" }],
    ];
    for (const [name, headers] of cases) {
      test(`${name} is answered with the 401 body exactly`, async () => {
        const answer = await service().ask("GET", PATH, { headers });
        expect(answer.status).toBe(401);
        expect(answer.json).toEqual({
          error: "Unauthorized - Missing or invalid token",
          code: 401,
        });
      });
    }

    test("a token that lacks its last character is invalid", async () => {
      const { ask, token } = service();
      const headers = { authorization: `Bearer ${token.slice(0, -1)}` };
      expect((await ask("GET", PATH, { headers })).status).toBe(401);
    });

    for (const [method, path] of [
      ["POST", PATH],
      ["GET", `${PATH}/x`],
      ["PUT", `${PATH}/x`],
      ["GET", `${PATH}/schema-config`],
    ] as const) {
      test(`${method} ${path} needs a token, too`, async () => {
        const headers = { authorization: "Bearer x" };
        expect((await service().ask(method, path, { headers })).status).toBe(401);
      });
    }
  });
}
