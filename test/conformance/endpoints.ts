import { describe, expect, test } from "vitest";
import { isSandbox, type HttpResponse, type Service } from "./service.ts";
import { NAMED_ENDPOINTS } from "./spec-tables.ts";

const PATH = "/business-relations";
const at = (crmCode: string): string => `${PATH}/${encodeURIComponent(crmCode)}`;
const person = (crmCode: string): Record<string, string> => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
});

function expectError(response: HttpResponse, status: number): void {
  expect(response.status).toBe(status);
  expect(response.headers.get("content-type")).toContain("application/json");
  expect(response.json).toEqual({ error: expect.any(String) as string, code: status });
}

/** The five operations, and the endpoints that the specification lists by name only. */
export function describeEndpoints(service: () => Service): void {
  describe("Endpoints, POST /business-relations", () => {
    test("returns 201 with crmCode and status", async () => {
      const crmCode = service().freshCode();
      const response = await service().request("POST", PATH, { body: person(crmCode) });
      expect(response.status).toBe(201);
      expect(response.json).toEqual({ crmCode, status: expect.any(String) as string });
    });

    test("returns 409 for a crmCode that exists, and does not change the relation", async () => {
      const { request, freshCode } = service();
      const crmCode = freshCode();
      await request("POST", PATH, { body: person(crmCode) });
      const again = await request("POST", PATH, { body: { ...person(crmCode), firstName: "Eva" } });
      expectError(again, 409);
      expect((await request("GET", at(crmCode))).json).toMatchObject({ firstName: "Ada" });
    });

    for (const [name, body] of [
      ["broken JSON", '{"type": "Person"'],
      ["an array", "[]"],
      ["a string", '"Person"'],
      ["null", "null"],
      ["an empty object", "{}"],
    ] as const) {
      test(`returns 400 for ${name}`, async () => {
        expectError(await service().request("POST", PATH, { body }), 400);
      });
    }
    test("returns 400 without a body", async () => {
      expectError(await service().request("POST", PATH), 400);
    });
  });

  describe("Endpoints, GET /business-relations/{crmCode}", () => {
    test("returns 404 for a crmCode that does not exist", async () => {
      expectError(await service().request("GET", at(service().freshCode())), 404);
    });

    for (const [name, rest] of [
      ["a slash", "a/b"],
      ["percent, question mark and hash", "100%?#"],
      ["a blank and a plus", "a b+c"],
      ["letters of other scripts and an emoji", "müller-李-🏦"],
      ["a text that looks encoded", "a%2Fb"],
      ["quotes and brackets", `a"'<>[]{}|\\^`],
    ] as const) {
      test(`finds a crmCode with ${name}`, async () => {
        const { request, freshCode } = service();
        const crmCode = `${freshCode()} ${rest}`;
        expect((await request("POST", PATH, { body: person(crmCode) })).status).toBe(201);
        const found = await request("GET", at(crmCode));
        expect(found.status).toBe(200);
        expect(found.json).toMatchObject(person(crmCode));
      });
    }
    if (isSandbox) {
      test("distinguishes crmCodes by case and by Unicode form", async () => {
        const { request, freshCode } = service();
        const crmCode = freshCode();
        await request("POST", PATH, { body: person(`${crmCode}-\u00e9`) });
        expectError(await request("GET", at(`${crmCode}-\u00c9`)), 404);
        expectError(await request("GET", at(`${crmCode}-e\u0301`)), 404);
      });
    }
  });

  describe("Endpoints, PUT /business-relations/{crmCode}", () => {
    test("returns 200 with crmCode and status, and the next GET shows the change", async () => {
      const { request, freshCode } = service();
      const crmCode = freshCode();
      await request("POST", PATH, { body: person(crmCode) });
      const response = await request("PUT", at(crmCode), {
        body: { ...person(crmCode), city: "Bern" },
      });
      expect(response.status).toBe(200);
      expect(response.json).toEqual({ crmCode, status: expect.any(String) as string });
      expect((await request("GET", at(crmCode))).json).toMatchObject({ city: "Bern" });
    });

    test("returns 400 for invalid input", async () => {
      const { request, freshCode } = service();
      const crmCode = freshCode();
      await request("POST", PATH, { body: person(crmCode) });
      const response = await request("PUT", at(crmCode), {
        body: { ...person(crmCode), email: "x" },
      });
      expectError(response, 400);
    });
  });

  if (isSandbox) {
    describe("Endpoints listed by name only", () => {
      for (const endpoint of NAMED_ENDPOINTS) {
        test(`${endpoint} returns 501 and names the endpoint`, async () => {
          const [method, path] = endpoint.split(" ") as [string, string];
          const response = await service().request(method, path);
          expectError(response, 501);
          expect(response.json["error"]).toContain(`${method} ${path.split("/x")[0]!}`);
        });
      }
    });
  }
}

export function describeAuthentication(service: () => Service): void {
  describe("Authentication 6: missing or invalid token", () => {
    const cases: [string, Record<string, string>][] = [
      ["an unknown token", { authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl" }],
      ["another scheme", { authorization: "Basic dXNlcjpwYXNz" }],
      ["no token", { authorization: "Bearer" }],
      ["an empty header", { authorization: "" }],
    ];
    for (const [name, headers] of cases) {
      test(`${name} returns exactly the specified 401 body`, async () => {
        const response = await service().request("GET", PATH, { headers });
        expect(response.status).toBe(401);
        expect(response.json).toEqual({
          error: "Unauthorized - Missing or invalid token",
          code: 401,
        });
      });
    }

    test("a token without its last character is invalid", async () => {
      const { request, token } = service();
      const headers = { authorization: `Bearer ${token.slice(0, -1)}` };
      expect((await request("GET", PATH, { headers })).status).toBe(401);
    });

    for (const [method, path] of [
      ["POST", PATH],
      ["GET", `${PATH}/x`],
      ["PUT", `${PATH}/x`],
      ["GET", `${PATH}/schema-config`],
    ] as const) {
      test(`${method} ${path} needs a token, too`, async () => {
        const headers = { authorization: "Bearer x" };
        expect((await service().request(method, path, { headers })).status).toBe(401);
      });
    }
  });
}
