import { describe, expect, test } from "vitest";
import { parseNetwork } from "../../../src/sandbox/addresses.ts";
import { Administration, DEFAULT_TENANT } from "../../../src/sandbox/administration.ts";
import { openDatabase } from "../../../src/sandbox/database.ts";
import type { SandboxOptions } from "../../../src/sandbox/serve.ts";
import { person, RELATIONS, runSandbox, send } from "./running-sandbox.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

const DEFAULT = { name: DEFAULT_TENANT, environment: "test" } as const;
const ACME = { name: "acme", environment: "test" } as const;

/** A sandbox, and an operator who changes its file over another connection. */
async function runWithOperator(options: SandboxOptions = {}) {
  const stack = new AsyncDisposableStack();
  const file = stack.use(await temporaryFile("sandbox.db"));
  const running = stack.use(await runSandbox({ database: file.path, ...options }));
  const database = openDatabase(file.path);
  stack.defer(() => database.close());
  const operator = new Administration(database);
  return {
    ...running,
    operator,
    statusOf: async (token: string) => (await running.request("GET", RELATIONS, { token })).status,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("tokens", () => {
  test("several are valid at once; a revocation is effective with the next request", async () => {
    await using setup = await runWithOperator();
    const first = setup.sandbox.token!;
    const { id, token: second } = setup.operator.createToken(DEFAULT, "rotation");
    expect([await setup.statusOf(first), await setup.statusOf(second)]).toEqual([200, 200]);
    setup.operator.revokeToken(id);
    expect([await setup.statusOf(first), await setup.statusOf(second)]).toEqual([200, 401]);
    expect(() => setup.operator.revokeToken(id)).toThrow(/no active token/);
  });

  test("are valid in one environment only", async () => {
    await using setup = await runWithOperator();
    const production = { ...DEFAULT, environment: "production" } as const;
    setup.operator.createTenant(production);
    setup.operator.allow(production, ["127.0.0.1"]);
    expect(await setup.statusOf(setup.operator.createToken(production).token)).toBe(401);
  });

  test("are stored as hashes only", async () => {
    await using file = await temporaryFile("sandbox.db");
    await using running = await runSandbox({ database: file.path });
    await running.request("GET", RELATIONS);
    const database = openDatabase(file.path);
    const rows = JSON.stringify(database.prepare("SELECT * FROM tokens").all());
    database.close();
    for (const part of running.sandbox.token!.split(".")) expect(rows).not.toContain(part);
  });

  test.each([
    ["no header", {}],
    ["two tokens", { authorization: "Bearer a b" }],
    ["a lower-case scheme and a wrong token", { authorization: "bearer x" }],
  ])("%s: exactly the specified 401 body", async (_name, headers) => {
    await using running = await runSandbox();
    const response = await fetch(`${running.sandbox.url}${RELATIONS}`, { headers });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    expect(await response.text()).toBe(
      '{"error":"Unauthorized - Missing or invalid token","code":401}',
    );
  });

  test("are checked before anything else", async () => {
    await using running = await runSandbox();
    for (const [method, target] of [
      ["GET", "/v1.1/nothing"],
      ["DELETE", RELATIONS],
      ["GET", "/v1.1/data/positions"],
      ["GET", `${RELATIONS}/%zz`],
      ["POST", RELATIONS],
    ] as const) {
      expect((await running.request(method, target, { token: "x" })).status).toBe(401);
    }
  });

  test("may come with the scheme in lower case", async () => {
    await using running = await runSandbox();
    const headers = { authorization: `bearer  ${running.sandbox.token!}` };
    expect((await running.request("GET", RELATIONS, { headers })).status).toBe(200);
  });
});

describe("allow-list", () => {
  test("a request from another address gets exactly the specified 403 body, with its address", async () => {
    await using running = await runSandbox({ host: "0.0.0.0" });
    const url = running.sandbox.url.replace("0.0.0.0", "127.0.0.1");
    const before = Date.now();
    const response = await send(url, "GET", RELATIONS, {
      token: running.sandbox.token!,
      from: "127.0.0.2",
    });
    expect(response.status).toBe(403);
    expect(Object.keys(response.json)).toEqual(["error", "message", "code", "ip", "timestamp"]);
    expect(response.json).toMatchObject({
      error: "FORBIDDEN",
      message: expect.any(String) as string,
      code: "IP_WHITELIST_BLOCKED",
      ip: "127.0.0.2",
    });
    const { timestamp } = response.json as { timestamp: string };
    expect(timestamp).toBe(new Date(timestamp).toISOString());
    expect(Date.parse(timestamp)).toBeGreaterThanOrEqual(before);
  });

  test("an empty list blocks every address; a change is effective with the next request", async () => {
    await using setup = await runWithOperator();
    const token = setup.sandbox.token!;
    setup.operator.disallow(DEFAULT, ["127.0.0.1", "::1"]);
    expect(await setup.statusOf(token)).toBe(403);
    setup.operator.allow(DEFAULT, ["::ffff:127.0.0.0/104"]);
    expect(setup.operator.allowed(DEFAULT)).toEqual(["127.0.0.0/8"]);
    expect(await setup.statusOf(token)).toBe(200);
  });

  test("an invalid token gets a 401 from any address", async () => {
    await using setup = await runWithOperator();
    setup.operator.disallow(DEFAULT, ["127.0.0.1"]);
    expect(await setup.statusOf("x")).toBe(401);
  });

  test("a server on IPv6 checks an IPv4 caller by its IPv4 address", async (context) => {
    const running = await runSandbox({ host: "::" }).catch(() => undefined);
    if (running === undefined) return context.skip("needs IPv6, which this machine does not have");
    await using _ = running;
    const { port } = new URL(running.sandbox.url);
    const headers = { authorization: `Bearer ${running.sandbox.token!}` };
    const response = await fetch(`http://127.0.0.1:${port}${RELATIONS}`, { headers });
    expect(response.status).toBe(200);
  });

  test("X-Forwarded-For is trusted from a trusted proxy only", async () => {
    const headers = { "x-forwarded-for": "203.0.113.9" };
    await using direct = await runSandbox();
    expect((await direct.request("GET", RELATIONS, { headers })).status).toBe(200);
    await using proxied = await runSandbox({ trustedProxies: [parseNetwork("127.0.0.1")!] });
    const blocked = await proxied.request("GET", RELATIONS, { headers });
    expect(blocked.json).toMatchObject({ code: "IP_WHITELIST_BLOCKED", ip: "203.0.113.9" });
    expect((await proxied.request("GET", RELATIONS)).status).toBe(200);
  });
});

describe("tenants", () => {
  test("cannot read or change each other's relations", async () => {
    await using setup = await runWithOperator({ limits: { perHour: 1_000_000, burst: 30 } });
    setup.operator.createTenant(ACME);
    setup.operator.allow(ACME, ["127.0.0.1"]);
    const other = { token: setup.operator.createToken(ACME).token };
    for (const crmCode of ["a", "b", "c"]) {
      await setup.request("POST", RELATIONS, { body: person(crmCode) });
    }
    expect((await setup.request("GET", `${RELATIONS}/a`, other)).status).toBe(404);
    expect(
      (await setup.request("PUT", `${RELATIONS}/a`, { ...other, body: person("a") })).status,
    ).toBe(404);
    expect((await setup.request("GET", RELATIONS, other)).json).toEqual({
      businessRelations: [],
      nextCursor: null,
    });
    expect((await setup.request("POST", RELATIONS, { ...other, body: person("a") })).status).toBe(
      201,
    );
    const { json } = await setup.request("GET", `${RELATIONS}?pageSize=1`);
    const cursor = `${RELATIONS}?cursor=${String(json["nextCursor"])}`;
    expect((await setup.request("GET", cursor, other)).status).toBe(400);
    expect((await setup.request("GET", cursor)).status).toBe(200);
  });

  test("have value lists of their own; a change is effective with the next request", async () => {
    await using setup = await runWithOperator();
    const body = person("v", { branch: ["vienna"] });
    expect((await setup.request("POST", RELATIONS, { body })).status).toBe(400);
    const rule = { values: ["vienna"], isRequired: true, multiSelect: true };
    setup.operator.setValues(DEFAULT, new Map([["branch", rule]]));
    expect((await setup.request("POST", RELATIONS, { body })).status).toBe(201);
    const without = await setup.request("POST", RELATIONS, { body: person("w") });
    expect(without.json["error"]).toBe("Invalid input: branch is required");
    const { json } = await setup.request("GET", `${RELATIONS}/schema-config`);
    expect(json["fields"]).toMatchObject({ branch: { type: "array", ...rule } });
  });
});
