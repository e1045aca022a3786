import { describe, expect, test } from "vitest";
import { Administration } from "../../../src/sandbox/administration.ts";
import { openDatabase } from "../../../src/sandbox/database.ts";
import { waitFor } from "../../support/wait-for.ts";
import { RELATIONS, runSandbox } from "./running-sandbox.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

const DEFAULT = { name: "default", environment: "test" } as const;

describe("a 429", () => {
  test("has the four headers, and requests succeed again after Retry-After", async () => {
    await using running = await runSandbox({ limits: { perHour: 3, hourMs: 2000 } });
    const before = Date.now();
    const first = await running.request("GET", RELATIONS);
    const after = Date.now();
    expect(first.headers).not.toHaveProperty("x-ratelimit-limit");
    for (let i = 0; i < 2; i += 1) await running.request("GET", RELATIONS);
    const { status, headers, json } = await running.request("GET", RELATIONS);
    expect(status).toBe(429);
    expect(json).toEqual({ error: expect.any(String) as string, code: 429 });
    expect(headers).toMatchObject({ "x-ratelimit-limit": "3", "x-ratelimit-remaining": "0" });
    const resetAtS = Number(headers["x-ratelimit-reset"]);
    expect(resetAtS).toBeGreaterThanOrEqual(Math.ceil((before + 2000) / 1000));
    expect(resetAtS).toBeLessThanOrEqual(Math.ceil((after + 2000) / 1000));
    expect(headers["retry-after"]).toBe("2");
    await waitFor(() => Date.now() >= after + 2000, { what: "the end of the window" });
    expect((await running.request("GET", RELATIONS)).status).toBe(200);
  });

  test("may give Retry-After as a date", async () => {
    await using running = await runSandbox({ limits: { burst: 1 }, retryAfter: "date" });
    await running.request("GET", RELATIONS);
    const retryAfter = (await running.request("GET", RELATIONS)).headers["retry-after"]!;
    expect(retryAfter).toBe(new Date(retryAfter).toUTCString());
    const waitMs = Date.parse(retryAfter) - Date.now();
    expect(waitMs).toBeGreaterThan(3000);
    expect(waitMs).toBeLessThanOrEqual(6000);
  });

  test("applies to every endpoint; requests without a valid token are not counted", async () => {
    await using running = await runSandbox({ limits: { burst: 4 } });
    for (let i = 0; i < 9; i += 1) await running.request("GET", RELATIONS, { token: "x" });
    const statuses = [];
    for (const target of ["/x", "/nothing/x", "/data/positions", "?pageSize=0", ""]) {
      const path = target.startsWith("/data") ? `/v1.1${target}` : `${RELATIONS}${target}`;
      statuses.push((await running.request("GET", path)).status);
    }
    expect(statuses).toEqual([404, 404, 501, 422, 429]);
  });
});

test("the quota headers can be sent with every response", async () => {
  await using running = await runSandbox({ limits: { perHour: 50 }, rateHeaders: "all" });
  const remaining = [];
  for (const target of [RELATIONS, `${RELATIONS}/x`, "/v1.1/data/positions"]) {
    const { headers } = await running.request("GET", target);
    remaining.push([headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]]);
    expect(headers).not.toHaveProperty("retry-after");
  }
  expect(remaining).toEqual([
    ["50", "49"],
    ["50", "48"],
    ["50", "47"],
  ]);
});

describe("a quota", () => {
  const lastStatus = async (countBy: "client" | "token"): Promise<number> => {
    await using running = await runSandbox({ limits: { burst: 2 }, countBy });
    const second = running.sandbox.createToken();
    await running.request("GET", RELATIONS);
    await running.request("GET", RELATIONS);
    return (await running.request("GET", RELATIONS, { token: second })).status;
  };
  test("is shared by a client's tokens", async () => expect(await lastStatus("client")).toBe(429));
  test("or belongs to one token", async () => expect(await lastStatus("token")).toBe(200));

  test("may have a client's own limits; a reset opens new windows for that client only", async () => {
    await using file = await temporaryFile("sandbox.db");
    await using running = await runSandbox({ database: file.path, limits: { burst: 1 } });
    const database = openDatabase(file.path);
    const operator = new Administration(database);
    const acme = { name: "acme", environment: "test" } as const;
    operator.createTenant(acme, { burst: 3 });
    operator.allow(acme, ["127.0.0.1"]);
    const { token } = operator.createToken(acme);
    const statuses = async (count: number, given: { token?: string }) => {
      const all = [];
      for (let i = 0; i < count; i += 1)
        all.push((await running.request("GET", RELATIONS, given)).status);
      return all;
    };
    expect(await statuses(2, {})).toEqual([200, 429]);
    expect(await statuses(4, { token })).toEqual([200, 200, 200, 429]);
    operator.reset(acme);
    expect(await statuses(4, { token })).toEqual([200, 200, 200, 429]);
    operator.setLimits(DEFAULT, { burst: 2 });
    expect(await statuses(3, {})).toEqual([200, 200, 429]);
    database.close();
  });
});
