/** Who may open /status, /metrics and /queues, and on which port. */
import { request as httpRequest } from "node:http";
import pino from "pino";
import { expect, inject, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { ROLES } from "../../../src/core/state/heartbeats.ts";
import { serveHttp } from "../../../workers/http.ts";
import { openKeyring } from "../../../workers/reseal.ts";
import { openParts } from "../../../workers/parts.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const VIEWER = "viewer-token-für-24-oder-mehr";
const OPERATOR = "operator-token-of-24-or-more";

async function serve(env: Record<string, string> = {}) {
  const config = readConfig({ QUEUE_PREFIX: uniquePrefix(), HTTP_PORT: "0", ...env });
  const runtime = openParts({
    config,
    redisUrl: inject("redisUrl"),
    version: "test",
    log: pino({ level: "silent" }),
    mapping: businessRelationMapping,
  });
  const start = { deadlineMs: 10_000, ends: () => false };
  const http = await serveHttp(runtime, new Set(ROLES), start);
  await openKeyring(runtime);
  return {
    ...http,
    async [Symbol.asyncDispose]() {
      await http.close(false);
      await runtime.close();
    },
  };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
/** As a sender writes it whose headers are UTF-8. */
const utf8 = (token: string) => Buffer.from(token).toString("latin1");
const basic = (token: string) => ({
  authorization: `Basic ${Buffer.from(`any:${token}`).toString("base64")}`,
});

/** Sends the path as it is: `fetch` would resolve its dot segments. */
async function statusOf(url: string, path: string, headers = {}, method = "GET"): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const request = httpRequest(url, { path, headers, method, agent: false }, (response) => {
    response.resume();
    resolve(response.statusCode ?? 0);
  });
  request.on("error", reject).end();
  return promise;
}

test("without tokens, /status and /metrics are open and /queues does not exist", async () => {
  await using server = await serve();
  expect(server.opsUrl).toBe(server.url);
  expect(await statusOf(server.url, "/status")).toBe(200);
  expect(await statusOf(server.url, "/metrics")).toBe(200);
  expect(await statusOf(server.url, "/queues")).toBe(404);
});

test("with tokens, viewers look, and only operators may do more", async () => {
  await using server = await serve({ VIEWER_TOKEN: VIEWER, OPERATOR_TOKEN: OPERATOR });
  const pause = "/queues/api/queues/crm-events/pause";
  for (const path of ["/status", "/metrics", "/queues", "/queues/api/queues"]) {
    expect(await statusOf(server.url, path), path).toBe(401);
    expect(await statusOf(server.url, path, bearer(`${VIEWER}x`)), path).toBe(401);
    expect(await statusOf(server.url, path, bearer(VIEWER)), path).toBe(200);
    expect(await statusOf(server.url, path, bearer(utf8(VIEWER))), path).toBe(200);
    expect(await statusOf(server.url, path, basic(OPERATOR)), path).toBe(200);
  }
  expect(await statusOf(server.url, pause, {}, "PUT")).toBe(401);
  expect(await statusOf(server.url, pause, bearer(VIEWER), "PUT")).toBe(403);
  expect(await statusOf(server.url, pause, bearer(OPERATOR), "PUT")).toBe(405);
  for (const path of ["/livez", "/readyz", "/openapi.json"]) {
    expect(await statusOf(server.url, path), path).toBe(200);
  }
});

test("with one token, the other one does not exist", async () => {
  await using server = await serve({ VIEWER_TOKEN: VIEWER });
  expect(await statusOf(server.url, "/queues", bearer(VIEWER))).toBe(200);
  expect(await statusOf(server.url, "/queues", bearer(""))).toBe(401);
  expect(await statusOf(server.url, "/queues", bearer("undefined"))).toBe(401);
});

test("OPS_PORT moves them to a port of their own", async () => {
  await using server = await serve({ OPS_PORT: "0", OPERATOR_TOKEN: OPERATOR });
  expect(server.opsUrl).not.toBe(server.url);
  for (const path of ["/status", "/metrics", "/queues"]) {
    expect(await statusOf(server.url, path, bearer(OPERATOR)), path).toBe(404);
    expect(await statusOf(server.opsUrl, path, bearer(OPERATOR)), path).toBe(200);
    expect(await statusOf(server.opsUrl, path), path).toBe(401);
  }
  expect(await statusOf(server.opsUrl, "/events", {}, "POST")).toBe(404);
  expect(await statusOf(server.opsUrl, "/webhooks/hubspot", {}, "POST")).toBe(404);
  for (const path of ["/livez", "/readyz"]) {
    expect(await statusOf(server.url, path)).toBe(200);
    expect(await statusOf(server.opsUrl, path)).toBe(200);
  }
});

test.for([
  "/queues/static/../..",
  "/queues/static/../../etc/passwd",
  "/queues/static/%2e%2e/%2e%2e",
  "/queues/static/%00",
  "/queues/queue/../../x",
])("%s is nothing, and no defect", async (path) => {
  await using server = await serve({ VIEWER_TOKEN: VIEWER });
  expect(await statusOf(server.url, path, bearer(VIEWER))).toBe(404);
});

test("every response forbids what no response needs", async () => {
  await using server = await serve({ VIEWER_TOKEN: VIEWER });
  for (const path of ["/livez", "/nothing", "/status", "/queues", "/%zz"]) {
    const { headers } = await fetch(server.url + path, { headers: bearer(VIEWER) });
    expect(headers.get("content-security-policy"), path).toContain("default-src 'none'");
    expect(headers.get("x-content-type-options"), path).toBe("nosniff");
    expect(headers.get("referrer-policy"), path).toBe("no-referrer");
    expect(headers.get("cache-control"), path).toBe("no-store");
  }
});
