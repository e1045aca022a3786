import { describe, expect, test } from "vitest";
import { person, RELATIONS, runSandbox, send, type RunningSandbox } from "./running-sandbox.ts";

const CREATE = { body: person("f") };
const runWithFaults = () => runSandbox({ faults: true });

async function arm({ sandbox }: RunningSandbox, fault: object): Promise<void> {
  const response = await send(sandbox.faultsUrl!, "POST", "/faults", { body: fault });
  expect(response.status).toBe(201);
}
const exists = async (running: RunningSandbox): Promise<boolean> =>
  (await running.request("GET", `${RELATIONS}/f`)).status === 200;

describe("before the request takes effect", () => {
  test.each([
    ["json", "application/json", /^\{"error":"Injected fault","code":503\}$/],
    ["html", "text/html", /^<html>/],
    ["empty", "text/plain", /^$/],
  ])("a 5xx with a body of %s", async (body, type, says) => {
    await using running = await runWithFaults();
    const headers = { "retry-after": "7" };
    await arm(running, { fault: "error", status: 503, body, headers });
    const response = await fetch(`${running.sandbox.url}${RELATIONS}`, {
      headers: { authorization: `Bearer ${running.sandbox.token!}` },
    });
    expect(response.status).toBe(503);
    expect(response.headers.get("content-type")).toContain(type);
    expect(response.headers.get("retry-after")).toBe("7");
    expect(await response.text()).toMatch(says);
    expect((await running.request("GET", RELATIONS)).status).toBe(200);
  });

  test("a reset", async () => {
    await using running = await runWithFaults();
    await arm(running, { fault: "reset" });
    await expect(running.request("POST", RELATIONS, CREATE)).rejects.toThrow(/ECONNRESET|hang up/);
    expect(await exists(running)).toBe(false);
  });

  test("the bodies of a revoked token and a blocked address", async () => {
    await using running = await runWithFaults();
    await arm(running, { fault: "revoked" });
    await arm(running, { fault: "blocked" });
    expect((await running.request("GET", RELATIONS)).status).toBe(401);
    expect((await running.request("GET", RELATIONS)).json).toMatchObject({ ip: "127.0.0.1" });
  });

  test("a 429 with any combination of headers", async () => {
    await using running = await runWithFaults();
    const rateLimit = async (options: object) => {
      await arm(running, { fault: "rate-limit", seconds: 3, ...options });
      const { status, headers } = await running.request("GET", RELATIONS);
      expect(status).toBe(429);
      return headers;
    };
    expect(await rateLimit({})).toMatchObject({ "retry-after": "3", "x-ratelimit-remaining": "0" });
    expect((await rateLimit({ retryAfter: "date" }))["retry-after"]).toMatch(/ GMT$/);
    const bare = await rateLimit({ retryAfter: "none", rateHeaders: false });
    expect(Object.keys(bare).filter((name) => /rate|retry/.test(name))).toEqual([]);
    expect((await rateLimit({ headers: { "retry-after": "soon" } }))["retry-after"]).toBe("soon");
  });
});

describe("after the request takes effect", () => {
  test.each([{ fault: "error", status: 502 }, { fault: "reset" }, { fault: "hang" }])(
    "%j: the write is stored, and the client gets no confirmation",
    async (fault) => {
      await using running = await runWithFaults();
      await arm(running, { ...fault, when: "after" });
      const pending = running.request("POST", RELATIONS, CREATE).then(
        ({ status }) => status,
        () => "cut",
      );
      if (fault.fault === "error") expect(await pending).toBe(502);
      if (fault.fault === "reset") expect(await pending).toBe("cut");
      await expect.poll(() => exists(running)).toBe(true);
    },
  );

  test("a body that ends in the middle", async () => {
    await using running = await runWithFaults();
    await running.request("POST", RELATIONS, CREATE);
    await arm(running, { fault: "truncate" });
    await expect(running.request("GET", `${RELATIONS}/f`)).rejects.toThrow(/aborted/);
    expect(await exists(running)).toBe(true);
  });
});

test("a latency delays", async () => {
  await using running = await runWithFaults();
  await arm(running, { fault: "latency", ms: 120 });
  const started = performance.now();
  expect((await running.request("GET", RELATIONS)).status).toBe(200);
  expect(performance.now() - started).toBeGreaterThanOrEqual(118);
});

test("requests that hang do not keep the sandbox from closing", async () => {
  const running = await runWithFaults();
  await arm(running, { fault: "hang" });
  const pending = running.request("GET", RELATIONS).catch(() => "cut");
  const counts = () => send(running.sandbox.faultsUrl!, "GET", "/faults", {});
  await expect.poll(async () => JSON.stringify((await counts()).json)).toContain('"struck":1');
  await running[Symbol.asyncDispose]();
  expect(await pending).toBe("cut");
});

test("the fault server lists armed faults, counts requests and explains invalid faults", async () => {
  await using running = await runWithFaults();
  const faultServer = (method: string, path: string, body?: unknown) =>
    send(running.sandbox.faultsUrl!, method, path, body === undefined ? {} : { body });
  await arm(running, { fault: "reset", times: 2 });
  await running.request("GET", RELATIONS).catch(() => undefined);
  await running.request("GET", RELATIONS, { token: "x" });
  expect((await faultServer("GET", "/faults")).json).toMatchObject({
    faults: [{ id: 1, struck: 1, left: 1 }],
  });
  await expect
    .poll(async () => (await faultServer("GET", "/requests")).json)
    .toEqual({ total: 2, operations: { list: { cut: 1, 401: 1 } } });
  expect((await faultServer("DELETE", "/requests")).json).toEqual({ total: 0, operations: {} });
  expect((await faultServer("DELETE", "/faults/7")).status).toBe(404);
  expect((await faultServer("DELETE", "/faults/1")).json).toEqual({ faults: [] });
  const wrong = await faultServer("POST", "/faults", { fault: "error", status: 399 });
  expect(wrong.status).toBe(400);
  expect(wrong.json["error"]).toContain("status");
});

test("without --faults there is no fault server", async () => {
  await using running = await runSandbox();
  expect(running.sandbox.faultsUrl).toBeNull();
});
