import { describe, expect, test } from "vitest";
import { parseNetwork } from "../../../src/sandbox/addresses.ts";
import { Administration, DEFAULT_TENANT } from "../../../src/sandbox/administration.ts";
import { openDatabase } from "../../../src/sandbox/database.ts";
import type { SandboxOptions } from "../../../src/sandbox/serve.ts";
import { person, RELATIONS, runSandbox, send } from "./running-sandbox.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

const DEFAULT = { name: DEFAULT_TENANT, environment: "test" } as const;
const ACME = { name: "acme", environment: "test" } as const;

/** A sandbox, and an operator who works on its file over a connection of his own. */
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
    statusOf: async (token: string) => (await running.ask("GET", RELATIONS, { token })).status,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("tokens", () => {
  test("several are in force at once, and a revoked one ends with the next request", async () => {
    await using world = await runWithOperator();
    const first = world.sandbox.token!;
    const { id, token: second } = world.operator.createToken(DEFAULT, "rotation");
    expect([await world.statusOf(first), await world.statusOf(second)]).toEqual([200, 200]);
    world.operator.revokeToken(id);
    expect([await world.statusOf(first), await world.statusOf(second)]).toEqual([200, 401]);
    expect(() => world.operator.revokeToken(id)).toThrow(/no token/);
  });

  test("are of one environment", async () => {
    await using world = await runWithOperator();
    const production = { ...DEFAULT, environment: "production" } as const;
    world.operator.createTenant(production);
    world.operator.allow(production, ["127.0.0.1"]);
    expect(await world.statusOf(world.operator.createToken(production).token)).toBe(401);
  });

  test("are in the file as hashes only", async () => {
    await using file = await temporaryFile("sandbox.db");
    await using running = await runSandbox({ database: file.path });
    await running.ask("GET", RELATIONS);
    const database = openDatabase(file.path);
    const rows = JSON.stringify(database.prepare("SELECT * FROM tokens").all());
    database.close();
    for (const part of running.sandbox.token!.split(".")) expect(rows).not.toContain(part);
  });

  test.each([
    ["no header", {}],
    ["two tokens", { authorization: "Bearer a b" }],
    ["a lower-case scheme and a wrong token", { authorization: "bearer x" }],
  ])("%s: the 401 body, exactly", async (_name, headers) => {
    await using running = await runSandbox();
    const answer = await fetch(`${running.sandbox.url}${RELATIONS}`, { headers });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    expect(await answer.text()).toBe(
      '{"error":"Unauthorized - Missing or invalid token","code":401}',
    );
  });

  test("are asked for before anything else is told", async () => {
    await using running = await runSandbox();
    for (const [method, target] of [
      ["GET", "/v1.1/nothing"],
      ["DELETE", RELATIONS],
      ["GET", "/v1.1/data/positions"],
      ["GET", `${RELATIONS}/%zz`],
      ["POST", RELATIONS],
    ] as const) {
      expect((await running.ask(method, target, { token: "x" })).status).toBe(401);
    }
  });

  test("may come with the scheme in lower case", async () => {
    await using running = await runSandbox();
    const headers = { authorization: `bearer  ${running.sandbox.token!}` };
    expect((await running.ask("GET", RELATIONS, { headers })).status).toBe(200);
  });
});

describe("allow-list", () => {
  test("another address gets the 403 body, exactly, with its address", async () => {
    await using running = await runSandbox({ host: "0.0.0.0" });
    const url = running.sandbox.url.replace("0.0.0.0", "127.0.0.1");
    const before = Date.now();
    const answer = await send(url, "GET", RELATIONS, {
      token: running.sandbox.token!,
      from: "127.0.0.2",
    });
    expect(answer.status).toBe(403);
    expect(Object.keys(answer.json)).toEqual(["error", "message", "code", "ip", "timestamp"]);
    expect(answer.json).toMatchObject({
      error: "FORBIDDEN",
      message: expect.any(String) as string,
      code: "IP_WHITELIST_BLOCKED",
      ip: "127.0.0.2",
    });
    const { timestamp } = answer.json as { timestamp: string };
    expect(timestamp).toBe(new Date(timestamp).toISOString());
    expect(Date.parse(timestamp)).toBeGreaterThanOrEqual(before);
  });

  test("an empty list lets nobody in, and a change counts from the next request on", async () => {
    await using world = await runWithOperator();
    const token = world.sandbox.token!;
    world.operator.disallow(DEFAULT, ["127.0.0.1", "::1"]);
    expect(await world.statusOf(token)).toBe(403);
    world.operator.allow(DEFAULT, ["::ffff:127.0.0.0/104"]);
    expect(world.operator.allowed(DEFAULT)).toEqual(["127.0.0.0/8"]);
    expect(await world.statusOf(token)).toBe(200);
  });

  test("an invalid token is told so at any address", async () => {
    await using world = await runWithOperator();
    world.operator.disallow(DEFAULT, ["127.0.0.1"]);
    expect(await world.statusOf("x")).toBe(401);
  });

  test("an IPv4 caller of a server on IPv6 is known by its IPv4 address", async (context) => {
    const running = await runSandbox({ host: "::" }).catch(() => undefined);
    if (running === undefined) return context.skip("needs IPv6, which this machine does not have");
    await using _ = running;
    const { port } = new URL(running.sandbox.url);
    const headers = { authorization: `Bearer ${running.sandbox.token!}` };
    const answer = await fetch(`http://127.0.0.1:${port}${RELATIONS}`, { headers });
    expect(answer.status).toBe(200);
  });

  test("X-Forwarded-For counts behind a trusted proxy only", async () => {
    const headers = { "x-forwarded-for": "203.0.113.9" };
    await using direct = await runSandbox();
    expect((await direct.ask("GET", RELATIONS, { headers })).status).toBe(200);
    await using proxied = await runSandbox({ trustedProxies: [parseNetwork("127.0.0.1")!] });
    const blocked = await proxied.ask("GET", RELATIONS, { headers });
    expect(blocked.json).toMatchObject({ code: "IP_WHITELIST_BLOCKED", ip: "203.0.113.9" });
    expect((await proxied.ask("GET", RELATIONS)).status).toBe(200);
  });
});

describe("tenants", () => {
  test("see nothing of each other", async () => {
    await using world = await runWithOperator({ limits: { perHour: 1_000_000, burst: 30 } });
    world.operator.createTenant(ACME);
    world.operator.allow(ACME, ["127.0.0.1"]);
    const other = { token: world.operator.createToken(ACME).token };
    for (const crmCode of ["a", "b", "c"]) {
      await world.ask("POST", RELATIONS, { body: person(crmCode) });
    }
    expect((await world.ask("GET", `${RELATIONS}/a`, other)).status).toBe(404);
    expect((await world.ask("PUT", `${RELATIONS}/a`, { ...other, body: person("a") })).status).toBe(
      404,
    );
    expect((await world.ask("GET", RELATIONS, other)).json).toEqual({
      businessRelations: [],
      nextCursor: null,
    });
    expect((await world.ask("POST", RELATIONS, { ...other, body: person("a") })).status).toBe(201);
    const { json } = await world.ask("GET", `${RELATIONS}?pageSize=1`);
    const cursor = `${RELATIONS}?cursor=${String(json["nextCursor"])}`;
    expect((await world.ask("GET", cursor, other)).status).toBe(400);
    expect((await world.ask("GET", cursor)).status).toBe(200);
  });

  test("have value lists of their own, from the next request on", async () => {
    await using world = await runWithOperator();
    const body = person("v", { branch: ["vienna"] });
    expect((await world.ask("POST", RELATIONS, { body })).status).toBe(400);
    const rule = { values: ["vienna"], isRequired: true, multiSelect: true };
    world.operator.setValues(DEFAULT, new Map([["branch", rule]]));
    expect((await world.ask("POST", RELATIONS, { body })).status).toBe(201);
    const without = await world.ask("POST", RELATIONS, { body: person("w") });
    expect(without.json["error"]).toBe("Invalid input: branch is required");
    const { json } = await world.ask("GET", `${RELATIONS}/schema-config`);
    expect(json["fields"]).toMatchObject({ branch: { type: "array", ...rule } });
  });
});
