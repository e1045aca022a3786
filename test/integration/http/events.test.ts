import { createHmac, randomBytes } from "node:crypto";
import { connect } from "node:net";
import { describe, expect, inject, test } from "vitest";
import { ownRedis } from "../../support/own-redis.ts";
import { personEvent } from "../../support/person-event.ts";
import { startIntakeServer, type IntakeServer } from "./intake-server.ts";

const BATCH = "application/cloudevents-batch+json";
const SINGLE = "application/cloudevents+json";

const OPEN = { INGEST_AUTH: "none" };
const TOKEN = "new-token-of-24-characters";
const OLDER_TOKEN = "old-token-of-24-characters";

interface ParsedResponse {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

async function post(
  server: IntakeServer,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Promise<ParsedResponse> {
  const response = await fetch(`${server.url}/events`, {
    method: "POST",
    headers: { "content-type": SINGLE, ...headers },
    body,
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("modes of CloudEvents", () => {
  test("accepts one event, a batch, and an event whose attributes are headers", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const event = personEvent("1");
    expect(await post(server, JSON.stringify(event))).toEqual({
      status: 202,
      body: { accepted: 1, duplicates: 0 },
    });
    const batch = [event, personEvent("2"), personEvent("3")];
    const headers = { "content-type": BATCH };
    expect((await post(server, JSON.stringify(batch), headers)).body).toEqual({
      accepted: 2,
      duplicates: 1,
    });
    const { data, ...attributes } = personEvent("4");
    const binary = {
      "content-type": "application/json",
      ...Object.fromEntries(
        Object.entries({ ...attributes, source: "/crm/%C3%BC", lane: "bulk" }).map(
          ([name, value]) => [`ce-${name}`, value],
        ),
      ),
    };
    expect((await post(server, JSON.stringify(data), binary)).status).toBe(202);
    expect((await server.events()).at(-1)).toEqual({
      ...attributes,
      source: "/crm/ü",
      lane: "bulk",
      data,
    });
  });

  test("a structured event is read from its body, whatever ce- headers a broker adds", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const { data: _, ...attributes } = personEvent("4");
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`ce-${name}`, String(value)]),
    );
    const event = JSON.stringify(personEvent("5"));
    expect(await post(server, event, headers)).toMatchObject({ status: 202 });
    expect(await server.events()).toMatchObject([{ subject: "contact/5" }]);
  });

  test("attributes of binary mode are UTF-8, percent-encoded or not", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    for (const [id, recordId] of [
      ["raw", Buffer.from("Zoë").toString("latin1")],
      ["encoded", "Zo%C3%AB"],
    ] as const) {
      const headers = {
        "content-type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": id,
        "ce-source": "/crm/test",
        "ce-type": "crm.record.deleted",
        "ce-subject": `contact/${recordId}`,
      };
      expect((await post(server, "", headers)).status).toBe(202);
    }
    const subject = "contact/Zoë";
    expect(await server.events()).toMatchObject([{ subject }, { subject }]);
  });

  test("a deletion in binary mode needs no body", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const { data: _, ...attributes } = personEvent("4", {}, { type: "crm.record.deleted" });
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`ce-${name}`, String(value)]),
    );
    const response = await post(server, "", { ...headers, "content-type": "application/json" });
    expect(response).toMatchObject({ status: 202, body: { accepted: 1 } });
  });

  test("numbers of 19 digits stay exact", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const body = JSON.stringify(personEvent("1", { crmId: 7 })).replace(
      '"crmId":7',
      '"crmId":1795224130716501506',
    );
    expect((await post(server, body)).status).toBe(202);
    expect(await server.events()).toMatchObject([
      { data: { record: { crmId: "1795224130716501506" } } },
    ]);
  });

  test("rejects a whole batch with bad events, and reports every problem with its index", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const bad = { ...personEvent("2"), type: "contact.updated", subject: "2" };
    const response = await post(server, JSON.stringify([personEvent("1"), bad, 7]), {
      "content-type": BATCH,
    });
    expect(response.status).toBe(400);
    expect(response.body["problems"]).toEqual([
      {
        index: 1,
        field: "type",
        rule: expect.stringMatching(/^must be one of crm/) as string,
        kind: "a string of 15 characters",
      },
      {
        index: 1,
        field: "subject",
        rule: "must be <object>/<recordId>",
        kind: "a string of 1 characters",
      },
      { index: 2, field: "", rule: "must be an object", kind: "a number" },
    ]);
    expect(await server.events()).toEqual([]);
  });

  test("rejects a bare record, and says where an event has its record", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const response = await post(server, JSON.stringify({ id: 7, lastName: "Muster" }));
    expect(response.status).toBe(400);
    expect(response.body["error"]).toContain("in data.record (docs/webhooks.md)");
  });
});

describe("credentials", () => {
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  const older = `whsec_${randomBytes(24).toString("base64")}`;

  /** Signs as the Standard Webhooks specification says. */
  function sign(body: string, id: string, time: number, by = secret): Record<string, string> {
    const key = Buffer.from(by.slice("whsec_".length), "base64");
    const made = createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64");
    return {
      "webhook-id": id,
      "webhook-timestamp": String(time),
      "webhook-signature": `v1,c29tZXRoaW5n v1,${made}`,
    };
  }

  const now = () => Math.floor(Date.now() / 1000);

  test("without configured credentials, every request gets 401", async () => {
    await using server = await startIntakeServer(inject("redisUrl"));
    const response = await post(server, JSON.stringify(personEvent("1")));
    expect(response.status).toBe(401);
    expect(response.body["error"]).toContain(
      "neither INGEST_TOKEN nor INGEST_SECRET is configured",
    );
  });

  test("accepts a token with letters beyond ASCII, as UTF-8 and as Latin-1", async () => {
    const token = "Grüße-an-alle-à-la-carte-2026";
    await using server = await startIntakeServer(inject("redisUrl"), { INGEST_TOKEN: token });
    for (const given of [Buffer.from(token).toString("latin1"), token]) {
      const headers = { authorization: `Bearer ${given}` };
      expect((await post(server, JSON.stringify(personEvent("1")), headers)).status).toBe(202);
    }
  });

  test("accepts either of two bearer tokens", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), {
      INGEST_TOKEN: `${TOKEN} ${OLDER_TOKEN}`,
    });
    const body = JSON.stringify(personEvent("1"));
    const as = async (authorization: string) =>
      (await post(server, body, { authorization })).status;
    expect(await as(`Bearer ${TOKEN}`)).toBe(202);
    expect(await as(`Bearer ${OLDER_TOKEN}`)).toBe(202);
    expect(await as(`Bearer ${TOKEN} ${OLDER_TOKEN}`)).toBe(401);
    expect(await as("Bearer other")).toBe(401);
    expect(await as(`Basic ${Buffer.from(TOKEN).toString("base64")}`)).toBe(401);
  });

  test("accepts a signature with either of two secrets, within five minutes, once", async () => {
    const env = { INGEST_SECRET: `${secret} ${older}`, INGEST_TOKEN: TOKEN };
    await using server = await startIntakeServer(inject("redisUrl"), env);
    const body = JSON.stringify(personEvent("Ü1"));
    const signed = sign(body, "msg_1", now());
    expect(await post(server, body, signed)).toMatchObject({ status: 202, body: { accepted: 1 } });
    // A copy gets 409; a retry with a new signature is accepted, and its event is a duplicate.
    expect((await post(server, body, signed)).status).toBe(409);
    const copy = { ...signed, "webhook-signature": `v1,eA== ${signed["webhook-signature"]}` };
    expect((await post(server, body, copy)).status).toBe(409);
    const again = sign(body, "msg_1", now() - 60, older);
    expect((await post(server, body, again)).body).toEqual({ accepted: 0, duplicates: 1 });

    const status = async (headers: Record<string, string>, sent = body) =>
      (await post(server, sent, headers)).status;
    expect(await status(sign(body, "m", now()), `${body} `)).toBe(401);
    expect(await status(sign(body, "m", now() - 301))).toBe(401);
    expect(await status(sign(body, "m", now() + 310))).toBe(401);
    expect(await status({ ...sign(body, "m", now()), "webhook-id": "n" })).toBe(401);
    expect(await status({ ...sign(body, "m", now()), "webhook-timestamp": `${now()}x` })).toBe(401);
    expect(
      await status(sign(body, "m", now(), `whsec_${randomBytes(32).toString("base64")}`)),
    ).toBe(401);
    expect(await status({ "webhook-signature": "v1,x" })).toBe(401);
    expect(await status({ authorization: `Bearer ${TOKEN}` })).toBe(202);
  });

  test("a signed body gets no attributes that are not signed", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), { INGEST_SECRET: secret });
    const { data: _, ...attributes } = personEvent("1", {}, { type: "crm.record.deleted" });
    const unsigned = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`ce-${name}`, String(value)]),
    );
    const body = JSON.stringify(personEvent("1"));
    const copy = { ...sign(body, "msg_1", now()), ...unsigned };
    const response = await post(server, body, { ...copy, "content-type": "application/json" });
    expect(response.status).toBe(400);
    expect(response.body["error"]).toContain("a signature does not cover the ce- headers");
    expect(await server.events()).toEqual([]);
    // In structured mode these headers say nothing.
    expect((await post(server, body, copy)).status).toBe(202);
    expect(await server.events()).toMatchObject([{ type: "crm.record.updated" }]);
  });

  test("a signed request that was cut short is accepted when it is sent again", async () => {
    await using redis = await ownRedis();
    await using server = await startIntakeServer(redis.url, { INGEST_SECRET: secret });
    const body = JSON.stringify(personEvent("1"));
    const signed = sign(body, "msg_1", now());
    const acl = (...rules: string[]) => redis.client.call("ACL", "SETUSER", "default", ...rules);
    // From here on Redis can note a request, and neither store its events nor take the note back.
    await acl("-eval", "-evalsha", "-multi", "-del", "-unlink");
    expect((await post(server, body, signed)).status).toBe(503);
    await acl("+@all");
    expect(await post(server, body, signed)).toMatchObject({ status: 202, body: { accepted: 1 } });
    expect((await post(server, body, signed)).status).toBe(409);
  });

  test("an INGEST_SECRET that cannot sign fails the start", async () => {
    await expect(
      startIntakeServer(inject("redisUrl"), { INGEST_SECRET: "hunter2" }),
    ).rejects.toThrow("INGEST_SECRET must be base64 after whsec_");
  });
});

describe("hostile requests", () => {
  test.for([
    ["not JSON", "{", {}, 400],
    ["empty", "", {}, 400],
    ["another type", "a=b", { "content-type": "application/x-www-form-urlencoded" }, 415],
    ["too large", `"${"x".repeat(1024 * 1024)}"`, {}, 413],
    ["deep", `${"[".repeat(300_000)}${"]".repeat(300_000)}`, {}, 400],
    [
      "deep with digits",
      `${"[".repeat(300_000)}1234567890123456789${"]".repeat(300_000)}`,
      {},
      400,
    ],
    ["null", "null", {}, 400],
    ["a bad escape", '"\\ud800"', {}, 400],
    ["not UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), {}, 400],
  ] as const)("%s", async ([, body, headers, status]) => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const response = await post(server, body, headers);
    expect(response.status).toBe(status);
    expect(typeof response.body["error"]).toBe("string");
    expect(server.defects).toEqual([]);
  });

  test("prototype keys are ordinary data", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const body = JSON.stringify(personEvent("1")).replace(
      '"firstName"',
      '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"firstName"',
    );
    expect((await post(server, body)).status).toBe(202);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("an incomplete request is closed, and others are served meanwhile", async () => {
    await using server = await startIntakeServer(inject("redisUrl"), OPEN);
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    socket.resume();
    socket.write(
      "POST /events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    );
    const closed = new Promise((resolve) => socket.once("close", resolve));
    expect((await post(server, JSON.stringify(personEvent("1")))).status).toBe(202);
    await closed;
  });
});
