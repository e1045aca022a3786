import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, createServer as createTcpServer, type AddressInfo, type Server } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createServiceClient, CrmCodeError } from "../../../src/core/service/client.ts";
import { Permit } from "../../../src/core/quota/permit.ts";

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    if ("closeAllConnections" in server)
      (server as ReturnType<typeof createServer>).closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A real HTTP server that responds through `respond` and records the requests. */
async function serve(respond: (seen: Seen, response: ServerResponse) => void) {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body });
      respond({ method, url, headers, body }, response);
    });
  });
  return { url: `http://127.0.0.1:${await listening(server)}`, seen };
}

const json = (response: ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
};

function open(baseUrl: string, options: Partial<Parameters<typeof createServiceClient>[0]> = {}) {
  const client = createServiceClient({
    baseUrl,
    token: () => "token-1",
    // No answer is late on a busy machine; a test of late ones sets it.
    timeoutMs: 30_000,
    ...options,
  });
  onTestFinished(async () => client.close());
  return client;
}

/** A permit that records how it ended. */
function permit(fresh = true) {
  const ends: string[] = [];
  const made = new Permit("live", {
    fresh: () => fresh,
    sending() {},
    cancelled: () => void ends.push("cancelled"),
    unsent: () => void ends.push("unsent"),
    async answered({ status }) {
      ends.push(`answered ${status ?? "by nothing"}`);
    },
  });
  return Object.assign(made, { ends });
}

const PERSON = { type: "Person", crmCode: "4711", firstName: "Ada", lastName: "Muster" };

test("the four operations reach their paths, with the token and JSON", async () => {
  const { url, seen } = await serve(({ method, body }, response) => {
    const { crmCode = "4711" } = JSON.parse(body === "" ? "{}" : body) as { crmCode?: string };
    json(response, method === "POST" ? 201 : 200, { crmCode, fields: {} });
  });
  const client = open(`${url}/eu/`);
  expect(await client.create(permit(), PERSON)).toEqual({ kind: "created" });
  expect(await client.update(permit(), "4711", PERSON)).toEqual({ kind: "updated" });
  expect(await client.get(permit(), "4711")).toMatchObject({ kind: "found" });
  expect(await client.schemaConfig(permit())).toEqual({ kind: "schema", fields: {} });
  expect(seen.map(({ method, url }) => `${method} ${url}`)).toEqual([
    "POST /eu/v1.1/business-relations",
    "PUT /eu/v1.1/business-relations/4711",
    "GET /eu/v1.1/business-relations/4711",
    "GET /eu/v1.1/business-relations/schema-config",
  ]);
  expect(JSON.parse(seen[1]?.body ?? "")).toEqual(PERSON);
  expect(seen.every(({ headers }) => headers.authorization === "Bearer token-1")).toBe(true);
  expect(seen.every(({ headers }) => headers["accept-encoding"] === "identity")).toBe(true);
  expect(seen[0]?.headers["content-type"]).toBe("application/json");
  // A cache on the way must not answer what is read with an older state.
  expect(seen.map(({ headers }) => headers["cache-control"])).toEqual([
    undefined,
    undefined,
    "no-cache",
    "no-cache",
  ]);
});

test.for([
  "a/b",
  "a%2Fb",
  "q?x=1",
  "#top",
  "a b",
  "Müller",
  "..a",
  "%2e%2e",
  "日本",
  "a\\b",
  "a;b",
  // 100 characters, each of which takes two UTF-16 units.
  "😀".repeat(100),
])("the crmCode %s arrives unchanged", async (crmCode) => {
  const { url, seen } = await serve((_, response) => json(response, 200, { crmCode }));
  expect(await open(url).get(permit(), crmCode)).toMatchObject({ kind: "found" });
  const path = seen[0]?.url?.split("/") ?? [];
  expect(path).toHaveLength(4);
  expect(decodeURIComponent(path[3] ?? "")).toBe(crmCode);
});

test.for(["", ".", "..", "schema-config", "a\u0000b", "\ud800", "x".repeat(101)])(
  "the crmCode %o throws CrmCodeError, and its permit is given back",
  async (crmCode) => {
    const { url, seen } = await serve((_, response) => json(response, 200, {}));
    const given = permit();
    await expect(open(url).get(given, crmCode)).rejects.toThrow(CrmCodeError);
    expect(given.ends).toEqual(["cancelled"]);
    expect(seen).toEqual([]);
  },
);

test("a page of the list is the largest that the service gives, from a cursor on, with terminated relations", async () => {
  const { url, seen } = await serve((_, response) =>
    json(response, 200, { businessRelations: [{ crmCode: "1" }], nextCursor: "two" }),
  );
  const client = open(url);
  const page = { kind: "page", relations: [{ crmCode: "1" }], nextCursor: "two" };
  expect(await client.listPage(permit(), undefined)).toEqual(page);
  expect(await client.listPage(permit(), "two")).toEqual(page);
  const all = "/v1.1/business-relations?pageSize=5000&includeTerminated=true";
  expect(seen.map(({ url: path }) => path)).toEqual([all, `${all}&cursor=two`]);
});

test("nothing is sent with a token that is not admitted, nor with another one than is asked for", async () => {
  const { url, seen } = await serve((_, response) => json(response, 200, { crmCode: "4711" }));
  let token = "strange";
  const client = open(url, { token: () => token, admits: (one) => one === "ours" });
  const requests = [
    (one: Permit) => client.create(one, PERSON),
    (one: Permit) => client.update(one, "4711", PERSON),
    (one: Permit) => client.get(one, "4711"),
    (one: Permit) => client.listPage(one, undefined),
    (one: Permit) => client.schemaConfig(one),
  ];
  for (const request of requests) {
    const given = permit();
    expect(await request(given)).toEqual({ kind: "throttled" });
    expect(given.ends).toEqual(["cancelled"]);
  }
  expect(await client.get(permit(), "4711", { anyTenant: true, token: "other" })).toEqual({
    kind: "throttled",
  });
  expect(seen).toEqual([]);

  expect(await client.get(permit(), "4711", { anyTenant: true })).toMatchObject({ kind: "found" });
  token = "ours";
  expect(await client.listPage(permit(), undefined, { token: "strange" })).toEqual({
    kind: "throttled",
  });
  expect(await client.get(permit(), "4711", { token })).toMatchObject({ kind: "found" });
  expect(seen.map(({ headers }) => headers.authorization)).toEqual([
    "Bearer strange",
    "Bearer ours",
  ]);
});

const begin = (response: ServerResponse, length: number) =>
  response.writeHead(200, { "content-type": "application/json", "content-length": length });

test.for<[string, (response: ServerResponse) => void, string, boolean]>([
  ["no response in time", () => {}, "timeout", true],
  [
    "a response that never ends",
    (response) => void begin(response, 99).write("{"),
    "timeout",
    true,
  ],
  [
    "a response that breaks off",
    (response) => begin(response, 99).write("{", () => response.destroy()),
    "truncated_body",
    true,
  ],
  ["a reset", (response) => response.socket?.resetAndDestroy(), "reset", true],
  ["a connection that closes", (response) => response.destroy(), "reset", true],
  [
    "a response that is too large",
    (response) => begin(response, 2_000_000).end(Buffer.alloc(2_000_000, " ")),
    "oversized_body",
    true,
  ],
])("%s is unavailable, and may have been applied", async ([, respond, reason, ambiguous]) => {
  const { url } = await serve((_, response) => respond(response));
  const given = permit();
  const client = open(url, reason === "timeout" ? { timeoutMs: 500 } : {});
  const reply = await client.update(given, "4711", PERSON);
  expect(reply).toMatchObject({ kind: "unavailable", reason, ambiguous });
  expect(given.ends).toEqual([expect.stringMatching(/^answered/)]);
});

test("a GET request is never ambiguous", async () => {
  const { url } = await serve((_, response) => response.destroy());
  expect(await open(url).get(permit(), "4711")).toMatchObject({
    reason: "reset",
    ambiguous: false,
  });
});

test("a 401 whose body breaks off is not believed: anything may have answered", async () => {
  const { url } = await serve((_, response) => {
    response.writeHead(401, { "content-length": 99 }).write("{", () => response.destroy());
  });
  expect(await open(url).get(permit(), "4711")).toMatchObject({ reason: "foreign_refusal" });
});

test("a 429 is obeyed when its headers are there, although its body does not end", async () => {
  const { url } = await serve((_, response) => {
    response.writeHead(429, { "retry-after": "7" }).write("slow ");
  });
  const client = open(url, { timeoutMs: 60_000 });
  const given = permit();
  const started = performance.now();
  expect(await client.get(given, "4711")).toEqual({ kind: "throttled" });
  expect(performance.now() - started).toBeLessThan(30_000);
  expect(given.ends).toEqual(["answered 429"]);
});

test("if nothing was written, the permit is not spent and the reply is not ambiguous", async () => {
  const port = await listening(createTcpServer((socket) => socket.destroy()));
  const closed = await new Promise<number>((resolve) => {
    const server = createTcpServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
  for (const [baseUrl, reason] of [
    [`http://127.0.0.1:${closed}`, "connection_refused"],
    [`https://127.0.0.1:${port}`, "reset"],
    // To the broadcast address of its own network no machine connects.
    [`http://127.255.255.255:${closed}`, "unreachable"],
    ["http://crmsync.invalid", "dns"],
  ] as const) {
    const given = permit();
    const reply = await open(baseUrl, { timeoutMs: 5000 }).update(given, "4711", PERSON);
    expect(reply).toEqual({ kind: "unavailable", reason, ambiguous: false });
    expect(given.ends).toEqual(["unsent"]);
  }
});

test("a stale permit is not spent: nothing is written", async () => {
  const { url, seen } = await serve((_, response) => json(response, 200, { crmCode: "4711" }));
  const given = permit(false);
  const reply = await open(url).update(given, "4711", PERSON);
  expect(reply).toEqual({ kind: "unavailable", reason: "stale_permit", ambiguous: false });
  expect(given.ends).toEqual(["unsent"]);
  expect(seen).toEqual([]);
});

test("no error contains the address, the token or the payload", async () => {
  const secretive = /127\.0\.0\.1|token-1|Muster/;
  const { url } = await serve(({ headers, body }, response) =>
    json(response, 400, {
      error: `${headers.host} ${headers.authorization} http://${headers.host} ${body}`,
      code: 400,
    }),
  );
  const reply = await open(url).update(permit(), "4711", PERSON);
  expect(reply).toMatchObject({ kind: "rejected", status: 400 });
  expect(JSON.stringify(reply)).not.toMatch(secretive);
});

test("connections are kept alive, and a rotated token is used at once", async () => {
  const ports = new Set<number | undefined>();
  const { url, seen } = await serve((_, response) => {
    ports.add(response.socket?.remotePort);
    json(response, 200, { crmCode: "4711" });
  });
  let token = "";
  const client = open(url, { token: () => token });
  const tokens = ["one", "two", "three", "four", "five", "six"];
  for (token of tokens) await client.get(permit(), "4711");
  expect(seen.map(({ headers }) => headers.authorization)).toEqual(
    tokens.map((t) => `Bearer ${t}`),
  );
  // The next request may begin a moment before the last one's connection is free.
  expect(ports.size).toBeLessThanOrEqual(2);
});

test("requests go through the proxy, except for hosts in noProxy", async () => {
  const { url, seen } = await serve((_, response) => json(response, 200, { crmCode: "4711" }));
  const tunnels: (string | undefined)[] = [];
  const proxy = createServer();
  proxy.on("connect", (request, socket) => {
    tunnels.push(request.url);
    const onward = connect(Number(new URL(url).port), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      onward.pipe(socket).pipe(onward);
    });
    onward.on("error", () => socket.destroy());
    socket.on("error", () => onward.destroy());
  });
  proxy.on("request", (request: IncomingMessage, response: ServerResponse) => {
    tunnels.push(request.url);
    json(response, 200, { crmCode: "4711" });
  });
  const httpProxy = `http://127.0.0.1:${await listening(proxy)}`;
  const through = open(url, { proxy: { httpProxy } });
  expect(await through.get(permit(), "4711")).toMatchObject({ kind: "found" });
  expect(tunnels).toHaveLength(1);
  const past = open(url, { proxy: { httpProxy, noProxy: "127.0.0.1" } });
  expect(await past.get(permit(), "4711")).toMatchObject({ kind: "found" });
  expect(tunnels).toHaveLength(1);
  expect(seen.length).toBeGreaterThan(0);
});

test("a relation that is not in UTF-8 is not read: its characters would be lost when it is sent back", async () => {
  const body = JSON.stringify({ crmCode: "4711", type: "Person", firstName: "Zoë" });
  const encoding = { now: "latin1" as BufferEncoding };
  const { url } = await serve((_, response) =>
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(Buffer.from(body, encoding.now)),
  );
  const client = open(url);
  const reason = { kind: "unavailable", reason: "not_json", ambiguous: false };
  expect(await client.get(permit(), "4711")).toMatchObject(reason);
  encoding.now = "utf8";
  expect(await client.get(permit(), "4711")).toMatchObject({ body: { firstName: "Zoë" } });
});

test("a proxy that does not answer, or hangs up, ends a request in time", async () => {
  let isSilent = true;
  const proxy = createTcpServer((socket) => {
    socket.on("error", () => {}).once("data", () => isSilent || socket.end());
  });
  const httpsProxy = `http://127.0.0.1:${await listening(proxy)}`;
  const client = open("https://127.0.0.1:1", { timeoutMs: 500, proxy: { httpsProxy } });
  const failed = { kind: "unavailable", reason: "proxy", ambiguous: false };
  expect(await client.update(permit(), "4711", PERSON)).toEqual(failed);
  isSilent = false;
  expect(await client.update(permit(), "4711", PERSON)).toEqual(failed);
});

test("a proxy that refuses connections is a failure of this process, not of the service", async () => {
  const { url, seen } = await serve((_, response) => json(response, 200, { crmCode: "4711" }));
  const proxy = { httpProxy: "http://127.0.0.1:1", httpsProxy: "http://127.0.0.1:1" };
  const failed = { kind: "unavailable", reason: "proxy", ambiguous: false };
  for (const service of [url, "https://127.0.0.1:1"]) {
    expect(await open(service, { proxy }).update(permit(), "4711", PERSON)).toEqual(failed);
  }
  expect(seen).toEqual([]);
  const direct = open("http://127.0.0.1:1", { proxy: { ...proxy, noProxy: "127.0.0.1" } });
  expect(await direct.update(permit(), "4711", PERSON)).toMatchObject({
    reason: "connection_refused",
  });
});

test("onExchange reports every request that was sent", async () => {
  const { url } = await serve((_, response) => json(response, 404, {}));
  const reported: object[] = [];
  const client = open(url, { onExchange: (exchange) => reported.push(exchange) });
  await client.update(permit(), "4711", PERSON);
  expect(reported).toMatchObject([{ operation: "update", method: "PUT", status: 404 }]);
});
