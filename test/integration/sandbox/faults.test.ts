import { describe, expect, test } from "vitest";
import { person, RELATIONS, runSandbox, send } from "./running-sandbox.ts";
import type { RunningSandbox } from "./running-sandbox.ts";

const CREATE = { body: person("f") };
const runWithFaults = () => runSandbox({ faults: true });

async function arm({ sandbox }: RunningSandbox, fault: object): Promise<void> {
  const answer = await send(sandbox.faultsUrl!, "POST", "/faults", { body: fault });
  expect(answer.status).toBe(201);
}
const exists = async (running: RunningSandbox): Promise<boolean> =>
  (await running.ask("GET", `${RELATIONS}/f`)).status === 200;

describe("before the request takes effect", () => {
  test.each([
    ["json", "application/json", /^\{"error":"Injected fault","code":503\}$/],
    ["html", "text/html", /^<html>/],
    ["empty", "text/plain", /^$/],
  ])("a 5xx with a body of %s", async (body, type, says) => {
    await using running = await runWithFaults();
    const headers = { "retry-after": "7" };
    await arm(running, { fault: "error", status: 503, body, headers });
    const answer = await fetch(`${running.sandbox.url}${RELATIONS}`, {
      headers: { authorization: `Bearer ${running.sandbox.token!}` },
    });
    expect(answer.status).toBe(503);
    expect(answer.headers.get("content-type")).toContain(type);
    expect(answer.headers.get("retry-after")).toBe("7");
    expect(await answer.text()).toMatch(says);
    expect((await running.ask("GET", RELATIONS)).status).toBe(200);
  });

  test("a reset", async () => {
    await using running = await runWithFaults();
    await arm(running, { fault: "reset" });
    await expect(running.ask("POST", RELATIONS, CREATE)).rejects.toThrow(/ECONNRESET|hang up/);
    expect(await exists(running)).toBe(false);
  });

  test("the bodies of a revoked token and a blocked address", async () => {
    await using running = await runWithFaults();
    await arm(running, { fault: "revoked" });
    await arm(running, { fault: "blocked" });
    expect((await running.ask("GET", RELATIONS)).status).toBe(401);
    expect((await running.ask("GET", RELATIONS)).json).toMatchObject({ ip: "127.0.0.1" });
  });

  test("a storm of 429 in any form", async () => {
    await using running = await runWithFaults();
    const storm = async (options: object) => {
      await arm(running, { fault: "rate-limit", seconds: 3, ...options });
      const { status, headers } = await running.ask("GET", RELATIONS);
      expect(status).toBe(429);
      return headers;
    };
    expect(await storm({})).toMatchObject({ "retry-after": "3", "x-ratelimit-remaining": "0" });
    expect((await storm({ retryAfter: "date" }))["retry-after"]).toMatch(/ GMT$/);
    const bare = await storm({ retryAfter: "none", rateHeaders: false });
    expect(Object.keys(bare).filter((name) => /rate|retry/.test(name))).toEqual([]);
    expect((await storm({ headers: { "retry-after": "soon" } }))["retry-after"]).toBe("soon");
  });
});

describe("after the request took effect", () => {
  test.each([{ fault: "error", status: 502 }, { fault: "reset" }, { fault: "hang" }])(
    "%j: the write is stored, and the client does not learn of it",
    async (fault) => {
      await using running = await runWithFaults();
      await arm(running, { ...fault, when: "after" });
      const asked = running.ask("POST", RELATIONS, CREATE).then(
        ({ status }) => status,
        () => "cut",
      );
      if (fault.fault === "error") expect(await asked).toBe(502);
      if (fault.fault === "reset") expect(await asked).toBe("cut");
      await expect.poll(() => exists(running)).toBe(true);
    },
  );

  test("a body that ends in its middle", async () => {
    await using running = await runWithFaults();
    await running.ask("POST", RELATIONS, CREATE);
    await arm(running, { fault: "truncate" });
    await expect(running.ask("GET", `${RELATIONS}/f`)).rejects.toThrow(/aborted/);
    expect(await exists(running)).toBe(true);
  });
});

test("a latency delays", async () => {
  await using running = await runWithFaults();
  await arm(running, { fault: "latency", ms: 120 });
  const started = performance.now();
  expect((await running.ask("GET", RELATIONS)).status).toBe(200);
  expect(performance.now() - started).toBeGreaterThanOrEqual(118);
});

test("requests that hang do not keep the sandbox from closing", async () => {
  const running = await runWithFaults();
  await arm(running, { fault: "hang" });
  const asked = running.ask("GET", RELATIONS).catch(() => "cut");
  const counts = () => send(running.sandbox.faultsUrl!, "GET", "/faults", {});
  await expect.poll(async () => JSON.stringify((await counts()).json)).toContain('"struck":1');
  await running[Symbol.asyncDispose]();
  expect(await asked).toBe("cut");
});

test("the port for faults tells what is armed, what was asked, and what is wrong", async () => {
  await using running = await runWithFaults();
  const desk = (method: string, path: string, body?: unknown) =>
    send(running.sandbox.faultsUrl!, method, path, body === undefined ? {} : { body });
  await arm(running, { fault: "reset", times: 2 });
  await running.ask("GET", RELATIONS).catch(() => undefined);
  await running.ask("GET", RELATIONS, { token: "x" });
  expect((await desk("GET", "/faults")).json).toMatchObject({
    faults: [{ id: 1, struck: 1, left: 1 }],
  });
  await expect
    .poll(async () => (await desk("GET", "/requests")).json)
    .toEqual({ total: 2, operations: { list: { cut: 1, 401: 1 } } });
  expect((await desk("DELETE", "/requests")).json).toEqual({ total: 0, operations: {} });
  expect((await desk("DELETE", "/faults/7")).status).toBe(404);
  expect((await desk("DELETE", "/faults/1")).json).toEqual({ faults: [] });
  const wrong = await desk("POST", "/faults", { fault: "error", status: 404 });
  expect(wrong.status).toBe(400);
  expect(wrong.json["error"]).toContain("status");
});

test("without --faults there is no such port", async () => {
  await using running = await runSandbox();
  expect(running.sandbox.faultsUrl).toBeNull();
});
