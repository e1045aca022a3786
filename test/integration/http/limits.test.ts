/** What one sender may take of the process, before and after its credentials are verified. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, type AddressInfo, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { fastify } from "fastify";
import { expect, inject, onTestFinished, test } from "vitest";
import { limitConnections, type ConnectionLimits } from "../../../src/intake/http/connections.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";
import { startIntakeServer, type IntakeServer } from "./intake-server.ts";

const MIB = 1024 * 1024;
const TOKEN = "a-token-of-24-characters";
const SIGNED = { INGEST_SECRET: `whsec_${Buffer.alloc(32, 1).toString("base64")}` };

/** A connection on which a test writes bytes as it likes. */
async function open(url: string): Promise<{ socket: Socket; received: () => string }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await once(socket, "connect");
  return { socket, received: () => text };
}

const head = (path: string, headers: Readonly<Record<string, string | number>>): string =>
  [
    `POST ${path} HTTP/1.1`,
    "Host: test",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "\r\n",
  ].join("\r\n");

/** The response to a request whose body never comes. */
async function answerWithoutBody(
  server: IntakeServer,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  const { socket, received } = await open(server.url);
  const length = { "Content-Type": "application/json", "Content-Length": 1_000_000 };
  socket.write(head(path, { ...length, ...headers }));
  await waitFor(() => received().includes("}"), { what: `an answer to ${path}` });
  socket.destroy();
  return received();
}

const refusals = async ({ runtime }: IntakeServer) => {
  const { values } = await runtime.metrics.httpRefused.get();
  return Object.fromEntries(
    values.flatMap(({ labels, value }) => (value > 0 ? [[String(labels.reason), value]] : [])),
  );
};

const seconds = (): number => Math.floor(Date.now() / 1000);
const signedAt = (time: number) => ({
  "webhook-id": "m",
  "webhook-timestamp": String(time),
  "webhook-signature": "v1,x",
});

test("a request without valid credentials is answered before its body is read", async () => {
  const secret = "a-secret-of-24-characters";
  await using server = await startIntakeServer(inject("redisUrl"), {
    ...SIGNED,
    HUBSPOT_WEBHOOK_SECRET: secret,
    DYNAMICS_WEBHOOK_SECRET: secret,
    TWENTY_WEBHOOK_SECRET: secret,
  });
  const late = String(Date.now() - 301_000);
  for (const [path, headers] of [
    ["/events", {}],
    ["/events", { authorization: "Bearer wrong" }],
    ["/events", signedAt(seconds() - 301)],
    ["/events", signedAt(seconds() + 302)],
    ["/events", { ...signedAt(seconds()), "webhook-signature": "nothing" }],
    ["/webhooks/salesforce", { "x-api-key": secret }],
    ["/webhooks/hubspot", {}],
    ["/webhooks/hubspot", { "x-hubspot-signature-v3": "x", "x-hubspot-request-timestamp": late }],
    ["/webhooks/twenty", { "x-twenty-webhook-signature": "x", "x-twenty-webhook-timestamp": late }],
    ["/webhooks/dynamics?code=wrong", {}],
  ] as const) {
    expect(await answerWithoutBody(server, path, headers), path).toMatch(/^HTTP\/1.1 401 /);
  }
  expect(await answerWithoutBody(server, "/webhooks/json/none", {})).toMatch(/^HTTP\/1.1 404 /);
  expect(await server.events()).toEqual([]);
});

test("compressed bodies are refused, also those of senders with credentials", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_TOKEN: TOKEN });
  const headers = { authorization: `Bearer ${TOKEN}`, "content-encoding": "gzip" };
  const answer = await answerWithoutBody(server, "/events", headers);
  expect(answer).toMatch(/^HTTP\/1.1 415 /);
  expect(answer).toContain("accept-encoding: identity");
});

test("bodies of unverified senders leave room for those of the others", async () => {
  const env = { ...SIGNED, INGEST_TOKEN: TOKEN };
  await using server = await startIntakeServer(inject("redisUrl"), env);
  const headers = { "Content-Type": "application/json", "Content-Length": MIB };
  const stalled = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const one = await open(server.url);
      one.socket.write(head("/events", { ...headers, ...signedAt(seconds()) }));
      one.socket.write(Buffer.alloc(MIB - 1, 97));
      return one;
    }),
  );
  const refused = () => stalled.filter(({ received }) => received().startsWith("HTTP/1.1 503 "));
  await waitFor(() => refused().length === 8, { what: "all but 32 are refused" });
  expect(refused()[0]?.received()).toContain("retry-after: 5");
  expect(await refusals(server)).toEqual({ bodies: 8 });

  const send = () =>
    fetch(`${server.url}/events`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify(personEvent("1")),
    });
  expect((await send()).status).toBe(202);

  // The room of a connection that is closed is free again.
  for (const { socket } of stalled) socket.destroy();
  const { socket, received } = await open(server.url);
  await waitFor(
    async () => {
      socket.write(head("/events", { ...headers, ...signedAt(seconds()), "Content-Length": 2 }));
      socket.write("{}");
      return received().includes("HTTP/1.1 401 ");
    },
    { what: "a signed request is read again" },
  );
  expect(received()).not.toContain("503");
});

test("a body in chunks of one byte is read completely", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_AUTH: "none" });
  const { socket, received } = await open(server.url);
  const headers = { "Content-Type": "application/json", "Transfer-Encoding": "chunked" };
  socket.write(head("/events", headers));
  const event = personEvent("Ü1", { address: "x".repeat(40_000) });
  const body = Buffer.from(JSON.stringify(event));
  for (const byte of body) {
    socket.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.of(byte), Buffer.from("\r\n")]));
  }
  socket.write("0\r\n\r\n");
  await waitFor(() => received().includes("}"), { what: "the answer" });
  expect(received()).toMatch(/^HTTP\/1.1 202 /);
  expect(await server.events()).toEqual([event]);
});

test("a body that grows beyond the limit is cut off", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_AUTH: "none" });
  const { socket, received } = await open(server.url);
  socket.write(
    head("/events", { "Content-Type": "application/json", "Transfer-Encoding": "chunked" }),
  );
  const chunk = Buffer.concat([
    Buffer.from("10000\r\n"),
    Buffer.alloc(0x10000),
    Buffer.from("\r\n"),
  ]);
  for (let n = 0; n < 20; n += 1) socket.write(chunk);
  await waitFor(() => received().includes("HTTP/1.1 413 "), { what: "the answer" });
});

test("a sender that is too fast gets 429, and no other sender suffers", async () => {
  const env = { ...SIGNED, INGEST_TOKEN: TOKEN, HTTP_RATE_LIMIT: "1" };
  await using server = await startIntakeServer(inject("redisUrl"), env);
  const send = (headers: Record<string, string>) =>
    fetch(`${server.url}/events`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(personEvent("1")),
    });
  const wrong = { authorization: "Bearer wrong" };
  for (let n = 0; n < 10; n += 1) expect((await send(wrong)).status).toBe(401);
  const late = await send({ authorization: "Bearer another one" });
  expect(late.status).toBe(429);
  expect(Number(late.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect((await late.json()) as object).toMatchObject({
    error: expect.stringContaining("HTTP_RATE_LIMIT") as string,
  });
  expect((await fetch(`${server.url}/openapi.json`)).status).toBe(429);
  // EspoCRM and Dynamics send again after 503, and lose what is answered 429.
  const post = (path: string) => fetch(server.url + path, { method: "POST", body: "{}" });
  expect((await post("/webhooks/espocrm/Contact/update")).status).toBe(503);
  expect((await post("/webhooks/hubspot")).status).toBe(429);

  for (let n = 0; n < 10; n += 1) {
    expect((await send({ authorization: `Bearer ${TOKEN}` })).status).toBe(202);
  }
  expect((await send({ authorization: `Bearer ${TOKEN}` })).status).toBe(429);
  expect(await refusals(server)).toEqual({ rate: 5 });
});

test("behind a trusted proxy, senders count by their own address", async () => {
  const env = { HTTP_RATE_LIMIT: "1", HTTP_TRUSTED_PROXIES: "127.0.0.0/8" };
  await using server = await startIntakeServer(inject("redisUrl"), env);
  const get = async (from: string) => {
    const headers = { "x-forwarded-for": from };
    return (await fetch(`${server.url}/openapi.json`, { headers })).status;
  };
  for (let n = 0; n < 10; n += 1) expect(await get(`2001:db8::${n}`)).toBe(200);
  // The whole network of 64 bits is one sender.
  expect(await get("2001:db8::ffff")).toBe(429);
  expect(await get("2001:db8:1::1")).toBe(200);
  expect(await get("192.0.2.1")).toBe(200);
});

test("a connection with too many unanswered requests is cut", async () => {
  await using server = await startIntakeServer(inject("redisUrl"));
  const { socket, received } = await open(server.url);
  socket.write("GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1000));
  await once(socket, "close");
  expect(received()).toBe("");
  expect(await refusals(server)).toEqual({ pipelined: 1 });
  const few = await open(server.url);
  few.socket.write("GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n".repeat(20));
  await waitFor(() => few.received().split("HTTP/1.1 404").length === 21, { what: "20 answers" });
});

/** A server with small limits, that answers with many bytes, or with a stream. */
async function limited(
  limits: Partial<ConnectionLimits>,
  answer: unknown = Buffer.alloc(32 * MIB),
) {
  const app = fastify({ forceCloseConnections: true });
  onTestFinished(() => app.close());
  const reasons: string[] = [];
  const wide = { connections: 100, unanswered: 100, readResponseMs: 60_000 };
  limitConnections(app, { ...wide, ...limits }, (why) => reasons.push(why));
  app.get("/", async () => answer);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, reasons, app };
}

test("a client that does not read its response is cut", async () => {
  const { url, reasons, app } = await limited({ readResponseMs: 200 });
  const { socket } = await open(url);
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
  await waitFor(() => reasons.length > 0, { what: "the cut" });
  expect(reasons).toEqual(["unread"]);
  await waitFor(
    () => new Promise((resolve) => app.server.getConnections((_, n) => resolve(n === 0))),
    {
      what: "the end of the connection",
    },
  );
});

test("a client that reads a response while it is made is not cut, however long that takes", async () => {
  const source = new PassThrough();
  const { url, reasons } = await limited({ readResponseMs: 100 }, source);
  source.write("x".repeat(1000));
  const response = await fetch(url);
  const text = response.text();
  // Longer than the client may read nothing: once without a byte, once with many.
  const looks = () => performance.now() - begun > 250;
  let begun = performance.now();
  await waitFor(looks, { what: "two looks" });
  begun = performance.now();
  await waitFor(
    async () => {
      if (!source.write("x".repeat(100_000))) await once(source, "drain");
      return looks();
    },
    { what: "two more looks" },
  );
  source.end();
  expect((await text).length).toBeGreaterThan(100_000);
  expect(reasons).toEqual([]);
});

test("of too many connections, the one that is idle for the longest time is closed", async () => {
  const { url, reasons } = await limited({ connections: 2 });
  const first = await open(url);
  const second = await open(url);
  const third = await open(url);
  await once(first.socket, "close");
  expect(reasons).toEqual(["connections"]);
  expect([second, third].map(({ socket }) => socket.closed)).toEqual([false, false]);
});

test("a batch with too many events, or too many problems, gets a short answer", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_AUTH: "none" });
  const post = async (body: string) => {
    const response = await fetch(`${server.url}/events`, {
      method: "POST",
      headers: { "content-type": "application/cloudevents-batch+json" },
      body,
    });
    return { status: response.status, text: await response.text() };
  };
  const many = await post(`[${"1,".repeat(349_000)}1]`);
  expect(many.status).toBe(400);
  expect(many.text).toContain("the batch has 349001 events");
  expect(many.text).toContain("send at most 10000 at once");
  const bad = await post(`[${"1,".repeat(9_999)}1]`);
  const answer = JSON.parse(bad.text) as Record<string, unknown>;
  expect(bad.status).toBe(400);
  expect(answer["problems"]).toHaveLength(50);
  expect(answer["problemCount"]).toBe(10_000);
  expect(await server.events()).toEqual([]);
});

test.for([
  ["id", { id: "a\ud800" }],
  ["source", { source: "/crm\udc00" }],
  ["subject", { subject: "contact/\ud83d" }],
  ["sequence", { sequence: "\ud800" }],
  ["data.record.lastName", { data: { record: { lastName: "\ud83d" } } }],
  ["data.record.tags[1].name", { data: { record: { tags: [1, { name: "x\udfff" }] } } }],
  ["data.record.\ufffd", { data: { record: { "\ud800": 1 } } }],
  ["extension", { extension: "\ud800" }],
] as const)("half of a surrogate pair in %s is refused", async ([field, change]) => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_AUTH: "none" });
  const response = await fetch(`${server.url}/events`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...personEvent("1"), ...change }),
  });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    problems: [{ field, rule: expect.stringContaining("well-formed") as string }],
  });
});

test("bytes that are not UTF-8 are refused, at /events and by webhooks", async () => {
  const secret = `any:${createHash("sha256").update("any").digest("hex")}`;
  const env = { INGEST_AUTH: "none", PIPEDRIVE_WEBHOOK_SECRET: secret };
  await using server = await startIntakeServer(inject("redisUrl"), env);
  const body = Buffer.from('{"meta":{"id":"\xff"}}', "latin1");
  for (const path of ["/events", "/webhooks/pipedrive"]) {
    const response = await fetch(server.url + path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: `Basic ${Buffer.from(secret).toString("base64")}`,
      },
      body,
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error: "the body is not valid UTF-8" });
  }
});

test("a request that cannot be read is answered with what is wrong with it", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), { INGEST_AUTH: "none" });
  const type = { "Content-Type": "application/json" };
  const cases = [
    ["GET /livez HTTP/1.1\r\nx: " + "a".repeat(20_000), "431", "larger than 16 KiB"],
    ["\u0016\u0003\u0001 a TLS handshake\r\n\r\n", "400", "for HTTPS, a proxy"],
    [head("/events", { ...type, "Content-Length": "-1" }), "400", "not valid HTTP/1.1"],
    [head("/events", { ...type, "Content-Length": 20 }) + "{", "408", "within 10 s"],
  ] as const;
  await Promise.all(
    cases.map(async ([request, status, error]) => {
      const { socket, received } = await open(server.url);
      socket.write(request, "latin1");
      await once(socket, "close");
      const [answer = "", body = ""] = received().split("\r\n\r\n");
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(answer).toContain("\r\ncache-control: no-store\r\n");
      expect((JSON.parse(body) as { error: string }).error).toContain(error);
    }),
  );
});
