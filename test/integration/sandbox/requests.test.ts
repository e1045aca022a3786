import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  person,
  RELATIONS,
  runSandbox,
  type HttpResponse,
  type RequestOptions,
  type RunningSandbox,
} from "./running-sandbox.ts";

let running: RunningSandbox;
beforeAll(async () => {
  running = await runSandbox();
  await running.request("POST", RELATIONS, { body: person("known") });
});
afterAll(async () => running[Symbol.asyncDispose]());

const request = (method: string, target: string, given?: RequestOptions): Promise<HttpResponse> =>
  running.request(method, target, given);

function expectError(response: HttpResponse, status: number, pattern: RegExp): void {
  expect(response.status).toBe(status);
  expect(response.json).toEqual({ error: expect.stringMatching(pattern) as string, code: status });
}

describe("methods", () => {
  test.each([
    ["PUT", RELATIONS, "GET, HEAD, POST"],
    ["DELETE", `${RELATIONS}/known`, "GET, HEAD, PUT"],
    ["PATCH", `${RELATIONS}/known`, "GET, HEAD, PUT"],
    ["OPTIONS", RELATIONS, "GET, HEAD, POST"],
    ["PROPFIND", RELATIONS, "GET, HEAD, POST"],
    ["POST", `${RELATIONS}/schema-config`, "GET, HEAD"],
    ["DELETE", "/v1.1/data/positions", "GET, HEAD"],
  ])("%s %s returns 405 and Allow: %s", async (method, target, allow) => {
    const response = await request(method, target);
    expectError(response, 405, new RegExp(`^Method ${method} is not allowed`));
    expect(response.headers.allow).toBe(allow);
  });

  test("HEAD returns the headers of GET without a body", async () => {
    const [head, get] = [
      await request("HEAD", `${RELATIONS}/known`),
      await request("GET", `${RELATIONS}/known`),
    ];
    expect(head.status).toBe(200);
    expect(head.text).toBe("");
    expect(head.headers["content-length"]).toBe(String(Buffer.byteLength(get.text)));
    expect((await request("HEAD", `${RELATIONS}/unknown`)).status).toBe(404);
  });
});

describe("paths", () => {
  test.each(["/v1.1", "/v1.1/", "/v1.1/nothing", `${RELATIONS}/`, `${RELATIONS}/a/b`])(
    "%s is not an endpoint",
    async (target) => expectError(await request("GET", target), 404, /^No such endpoint$/),
  );
  test.each(["/nothing", "/v1/business-relations", "/v2.0/business-relations", "/V1.1/x"])(
    "%s is not a path of the service",
    async (target) => expectError(await request("GET", target), 404, /^No such page$/),
  );
  test.each(["GET", "POST"])("%s of the route inside is not an endpoint", async (method) =>
    expectError(await request(method, "/service"), 404, /^No such endpoint$/),
  );
  test.each(["%", "%zz", "%C3", "%C3%28"])("%s is not valid text", async (segment) =>
    expectError(await request("GET", `${RELATIONS}/${segment}`), 400, /percent-encoded/),
  );

  test.each([
    ".",
    "..",
    "a/b",
    "schema-config",
    "100%?#&=+",
    "\u0000\u0007",
    "tab\tend ",
    "x".repeat(100),
  ])("the Location of a created relation %j leads to it", async (crmCode) => {
    const created = await request("POST", RELATIONS, { body: person(crmCode) });
    expect(created.status).toBe(201);
    const { location } = created.headers;
    // An encoded dot is still a dot to this server; a client that resolves paths cannot send one.
    expect((await request("GET", location!)).json).toMatchObject({ crmCode });
    const update = { body: person(crmCode, { city: "Bern" }) };
    expect((await request("PUT", location!, update)).status).toBe(200);
    expect((await request("GET", location!)).json).toMatchObject({ city: "Bern" });
  });

  test("an unencoded schema-config stays the other endpoint", async () => {
    expect((await request("GET", `${RELATIONS}/schema-config`)).json).toHaveProperty("fields");
  });

  test("a request target may be an absolute address", async () => {
    const response = await request("GET", `http://elsewhere.example${RELATIONS}/known?x=1`);
    expect(response.json).toMatchObject({ crmCode: "known" });
  });
});

describe("bodies", () => {
  const post = (body: unknown, headers: Record<string, string> = {}): Promise<HttpResponse> =>
    request("POST", RELATIONS, { body, headers });

  test.each(["text/plain", "application/xml", "application/merge-patch+json", "x"])(
    "of type %s return 415",
    async (type) =>
      expectError(await post("{}", { "content-type": type }), 415, /application\/json/),
  );
  test.each([
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    'application/json;charset="UTF-8"',
  ])("of type %s are accepted", async (type) =>
    expectError(await post("{}", { "content-type": type }), 400, /type is required/),
  );
  test("in another character set or compressed return 415", async () => {
    const latin = { "content-type": "application/json; charset=iso-8859-1" };
    expectError(await post("{}", latin), 415, /UTF-8/);
    expectError(await post("{}", { "content-encoding": "gzip" }), 415, /not compressed/);
  });

  test.each(["{", "", " ", "{'a':1}", "{}{}", "undefined"])("%j is not JSON", async (body) =>
    expectError(await post(body), 400, /^Invalid input: .*(JSON|body)/),
  );
  test("that are not UTF-8 are not JSON", async () => {
    const latin1 = Buffer.from(JSON.stringify(person("x", { city: "Zürich" })), "latin1");
    expectError(await post(latin1), 400, /UTF-8/);
  });
  test("over the limit return 413, with Content-Length and chunked", async () => {
    const body = JSON.stringify(person("big", { address: "x".repeat(1_048_576) }));
    expectError(await post(body), 413, /larger than 1048576 bytes/);
    const chunked = { "transfer-encoding": "chunked" };
    expectError(await post(body, chunked), 413, /larger than 1048576 bytes/);
  });
  test("up to the limit are accepted", async () => {
    const empty = Buffer.byteLength(JSON.stringify(person("large", { address: "" })));
    const body = person("large", { address: "x".repeat(1_048_576 - empty) });
    expect((await post(body)).status).toBe(201);
  });
  test("are not parsed where an endpoint has none", async () => {
    const upload = { body: "x", headers: { "content-type": "multipart/form-data; boundary=x" } };
    expectError(await request("POST", `${RELATIONS}/known/documents`, upload), 501, /documents/);
  });
});

test("a request that is not HTTP returns an ErrorResponse, too", async () => {
  const socket = connect(Number(new URL(running.sandbox.url).port), "127.0.0.1");
  socket.end("NONSENSE\r\n\r\n");
  const response = await text(socket);
  expect(response).toMatch(/^HTTP\/1\.1 400 /);
  expect(response).toContain('{"error":"Bad Request","code":400}');
});

describe("list parameters", () => {
  test.each([
    ["pageSize=0", "pageSize must be"],
    ["pageSize=1&pageSize=2", "pageSize is given more than once"],
    ["pageSize=%2B5", "pageSize must be"],
    ["pageSize=99999999999999999999", "pageSize must be"],
    ["includeTerminated=TRUE", "includeTerminated must be"],
    ["includeTerminated=", "includeTerminated must be"],
    ["page=2", '"page" is not a parameter'],
    ["pageSize=0&includeTerminated=1&x=1&cursor=y", "x.*pageSize.*includeTerminated"],
  ])("%s returns 422", async (query, message) => {
    expectError(await request("GET", `${RELATIONS}?${query}`), 422, new RegExp(message));
  });
  test.each(["cursor=", "cursor=x", "cursor=a&pageSize=5"])("%s returns 400", async (query) =>
    expectError(await request("GET", `${RELATIONS}?${query}`), 400, /cursor/),
  );
  test("unknown parameters are ignored under the policy ignore", async () => {
    await using lenient = await runSandbox({ unknownFields: "ignore" });
    expect((await lenient.request("GET", `${RELATIONS}?page=2`)).status).toBe(200);
  });
});
