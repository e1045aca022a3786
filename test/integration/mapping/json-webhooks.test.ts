/** POST /webhooks/json/<name> on a real Redis: what the tools post, and bodies that mean harm. */
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { writeFile } from "node:fs/promises";
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, inject, test } from "vitest";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { fixtureText } from "../../support/fixtures.ts";
import { temporaryFile } from "../../support/temporary-file.ts";
import { startIntakeServer, type IntakeServer } from "../http/intake-server.ts";

const SECRETS = {
  ODOO_WEBHOOK_SECRET: "odoo:old odoo:new",
  ZAPIER_WEBHOOK_SECRET: "zap",
  N8N_WEBHOOK_SECRET: "key",
  PAYMENTS_WEBHOOK_SECRET: "signing",
  ZOHO_WEBHOOK_SECRET: "channel-token-of-24-letters",
  ZOHO_WORKFLOW_WEBHOOK_SECRET: "workflow",
  DEBEZIUM_WEBHOOK_SECRET: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
};

/** The expressions that hostile bodies meet. */
const HOSTILE = `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }
webhooks:
  plain:
    verify: none
  list:
    verify: none
    events: data.items
    object: { value: contact }
    recordId: contact.id
    record: contact
    time: at
    eventId: $body.delivery
  inherited:
    verify: none
    events: constructor.name
  slow:
    verify: none
    recordId: '$match(id, /^(a+)+$/) ? id : id'
  looping:
    verify: none
    recordId: '($f := function($n){ $n = 0 ? 0 : 1 + $f($n - 1) }; loop ? $f(100000) : id)'
`;

async function serve(mapping: string, env: Record<string, string>) {
  const server = await startIntakeServer(inject("redisUrl"), env, await loadMapping(mapping));
  const post = async (path: string, body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${server.url}/webhooks/json/${path}`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...headers },
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const received = async () =>
    (await server.events()).map(({ type, subject, time, source, data }) => ({
      what: `${String(type).slice(11)} ${String(subject)}`,
      time,
      source,
      data,
    }));
  return { server, post, received };
}

const outcomes = async ({ runtime }: IntakeServer, webhook: string) => {
  const { values } = await runtime.metrics.webhooks.get();
  const own = values.filter(({ labels, value }) => labels.webhook === webhook && value > 0);
  return Object.fromEntries(own.map(({ labels, value }) => [String(labels.outcome), value]));
};

const basic = (text: string) => ({
  authorization: `Basic ${Buffer.from(text).toString("base64")}`,
});

test("the bodies of Odoo, Zapier, n8n and a tool that signs become events", async () => {
  const mapping = join(import.meta.dirname, "../../fixtures/json/mapping.yaml");
  const { server, post, received } = await serve(mapping, SECRETS);
  await using _server = server;

  const odoo = fixtureText("json/odoo-contact.json");
  expect(await post("odoo", odoo, basic("odoo:no"))).toMatchObject({ status: 401 });
  expect(await post("odoo", odoo, basic("odoo:old"))).toEqual({
    status: 200,
    body: { accepted: 1, duplicates: 0 },
  });
  expect(await post("odoo", odoo, basic("odoo:new"))).toMatchObject({ body: { duplicates: 1 } });
  expect(await post("odoo?operation=deleted", odoo, basic("odoo:new"))).toMatchObject({
    body: { accepted: 1 },
  });

  const zapier = fixtureText("json/zapier-contact.json");
  const zap = { authorization: "Bearer zap", "content-type": "text/plain" };
  expect(await post("zapier", zapier, zap)).toMatchObject({ status: 200 });

  const n8n = fixtureText("json/n8n-contacts.json");
  expect(await post("n8n", n8n, { "x-api-key": "key" })).toEqual({
    status: 200,
    body: { accepted: 2, duplicates: 0 },
  });

  const signed = fixtureText("json/signed-customer.json");
  const time = String(Math.floor(Date.now() / 1000));
  const sign = (body: string) => {
    const signature = createHmac("sha256", "signing").update(`${time}.${body}`).digest("hex");
    return { "payments-signature": `t=${time},v1=${signature}` };
  };
  const headers = sign(signed);
  expect(await post("payments", signed, headers)).toMatchObject({ status: 200 });
  expect(await post("payments", signed, headers)).toMatchObject({ status: 409 });
  expect(await post("payments", `${signed} `, headers)).toMatchObject({
    status: 401,
    body: { error: "the signature in payments-signature is not that of the secret" },
  });

  // What is stored in part may be sent again, with the same signature.
  const partly = `[${signed},{}]`;
  for (const duplicates of [1, 1]) {
    expect(await post("payments", partly, sign(partly))).toMatchObject({
      status: 400,
      body: { accepted: 0, duplicates, problems: [{ index: 1 }, { index: 1 }] },
    });
  }

  const zoho = fixtureText("json/zoho-deletion.json");
  expect(await post("zoho", zoho.replace("channel-token", "other-token"))).toEqual({
    status: 401,
    body: { error: "the field token of the body is missing or wrong" },
  });
  expect(await post("zoho", "[]")).toMatchObject({ status: 401 });
  expect(await post("zoho", zoho)).toMatchObject({ status: 200, body: { accepted: 2 } });
  // As API v2 to v7 send it: without the time; what the workflow brings is left out.
  const { server_time: _time, ...early } = JSON.parse(zoho) as Record<string, unknown>;
  const deleted = { ...early, ids: ["2000000033001"], resource_uri: "https://crm.zoho.com/v2" };
  expect(await post("zoho", JSON.stringify(deleted))).toMatchObject({ body: { accepted: 1 } });
  for (const operation of ["insert", "update"]) {
    const changed = JSON.stringify({ ...early, operation, affected_fields: [] });
    expect(await post("zoho", changed)).toMatchObject({ status: 200, body: { accepted: 0 } });
  }
  const workflow = fixtureText("json/zoho-workflow.json");
  const form = new URLSearchParams(JSON.parse(workflow) as Record<string, string>).toString();
  const asZoho = { "x-api-key": "workflow" };
  expect(await post("zoho-workflow", workflow, asZoho)).toMatchObject({ body: { accepted: 1 } });
  const asForm = { ...asZoho, "content-type": "application/x-www-form-urlencoded" };
  expect(await post("zoho-workflow", form, asForm)).toMatchObject({ body: { duplicates: 1 } });

  expect(await received()).toEqual([
    {
      what: "updated res.partner/47",
      time: "2026-11-20T09:30:11.482913Z",
      source: "/json/odoo",
      data: { record: JSON.parse(odoo) as unknown, partial: true },
    },
    expect.objectContaining({ what: "deleted res.partner/47" }),
    expect.objectContaining({ what: "updated contact/981", time: "2026-11-20T09:30:11+01:00" }),
    expect.objectContaining({
      what: "updated contact/9007199254740993123",
      time: "2026-11-20T09:30:11.482Z",
      data: {
        record: { id: "9007199254740993123", first_name: "Grace", last_name: "Hopper" },
        partial: true,
      },
    }),
    expect.objectContaining({ what: "deleted contact/77" }),
    expect.objectContaining({ what: "created contact/cus_9", source: "/json/payments" }),
    expect.objectContaining({ what: "deleted Contacts/3652397000009453001" }),
    expect.objectContaining({ what: "deleted Contacts/3652397000009453002" }),
    expect.objectContaining({ what: "deleted Contacts/2000000033001", time: undefined }),
    expect.objectContaining({
      what: "updated Contacts/3652397000009453001",
      time: "2026-11-20T09:30:11+01:00",
      data: { record: JSON.parse(workflow) as unknown, partial: true },
    }),
  ]);
  expect(await outcomes(server, "json/odoo")).toEqual({ stored: 3, unauthorised: 1 });
  expect(await outcomes(server, "json/payments")).toEqual({
    stored: 1,
    copy: 1,
    unauthorised: 1,
    partly_stored: 2,
  });
  const counts = await server.runtime.metrics.sharedCounts();
  expect(counts.get("webhook_error json/odoo unauthorised")).toBe(1);
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as { paths: object };
  expect(await new Validator().validate(document)).toMatchObject({ valid: true });
  expect(document.paths).toHaveProperty(["/webhooks/json/{name}"]);
  expect(await post("zappier", zapier, zap)).toEqual({
    status: 404,
    body: { error: "the mapping file has no webhook of this name" },
  });
});

test("hostile bodies cost nothing but themselves", async () => {
  await using file = await temporaryFile("hostile.yaml");
  await writeFile(file.path, HOSTILE);
  const { server, post, received } = await serve(file.path, { INGEST_AUTH: "none" });
  await using _server = server;
  const item = (id: unknown, at: unknown = 1_795_167_011) => ({ at, contact: { id } });
  const list = (items: unknown[], delivery?: string) =>
    JSON.stringify({ delivery, data: { items } });

  // What is no body at all.
  for (const [body, error] of [
    ["", "the body is not valid JSON"],
    ["{", "the body is not valid JSON"],
    [`{"data":${"[".repeat(200)}${"]".repeat(200)}}`, "nested deeper than 60 levels"],
    ["[".repeat(1e6), "the body is not valid JSON"],
    ["{}", "the body has no data.items (webhooks.list.events in the mapping says"],
    ['{"data":[]}', "the body has no data.items"],
    ['{"__proto__":{"data":{"items":[]}}}', "the body has no data.items"],
    ["null", "the body has no data.items"],
    [list(Array.from({ length: 10_001 }, () => 0)), "more than 10000 events"],
  ] as const) {
    const response = await post("list", body);
    expect(response, body.slice(0, 50)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining(error) as string },
    });
  }
  expect(await post("list", `"${"x".repeat(5_000_000)}"`)).toMatchObject({ status: 413 });
  expect(await post("inherited", "{}")).toMatchObject({
    status: 400,
    body: { error: expect.stringContaining("the body has no constructor.name") as string },
  });
  const allBad = await post("list", list([{}, {}]));
  expect(allBad.body).toMatchObject({
    error: expect.stringContaining("2 of 2 events are not stored, none is stored") as string,
  });
  expect(Object.keys(allBad.body)).toEqual(["error", "problems", "problemCount"]);
  expect(await outcomes(server, "json/list")).toEqual({ bad_body: 10 });
  expect(await post("list", list([]))).toMatchObject({ status: 200, body: { accepted: 0 } });
  expect(await received()).toEqual([]);

  // Good events among bad ones are stored; each bad one is named, without its values.
  const mixed = list(
    [
      item(1),
      item("secret", "secret"),
      null,
      item(4, "2099-01-01T00:00:00Z"),
      item("x\u0000"),
      item(6),
    ],
    "d-1",
  );
  const answer = await post("list", mixed);
  expect(answer).toMatchObject({
    status: 400,
    body: {
      error: expect.stringContaining(
        "4 of 6 events are not stored, the others are stored; event 1: time must be a date",
      ) as string,
      accepted: 2,
      problems: [
        { index: 1, field: "time" },
        { index: 2, field: "event" },
        { index: 3, field: "time", rule: expect.stringContaining("a day ahead") as string },
        { index: 4, field: expect.stringMatching(/^(id|subject)$/) as string },
      ],
    },
  });
  expect(JSON.stringify(answer.body)).not.toContain("secret");
  expect(await post("list", mixed)).toMatchObject({ body: { accepted: 0, duplicates: 2 } });
  expect((await received()).map(({ what }) => what)).toEqual([
    "updated contact/1",
    "updated contact/6",
  ]);
  expect(await outcomes(server, "json/list")).toMatchObject({ partly_stored: 2 });

  // An expression that does not end costs its event; the second time, the rest of the body, too.
  const evil = { id: `${"a".repeat(40)}!` };
  const slow = await post("slow", JSON.stringify([evil, { id: "a" }, evil, { id: "b" }]));
  expect(slow).toMatchObject({
    status: 400,
    body: {
      // On a busy machine one of them is enough.
      problems: expect.arrayContaining([
        expect.objectContaining({
          index: 0,
          field: "recordId",
          rule: expect.stringContaining("took longer than ") as string,
        }),
        expect.objectContaining({
          index: 3,
          field: "event",
          rule: expect.stringContaining("was not read") as string,
        }),
      ]) as unknown,
    },
  });
  const looping = await post("looping", JSON.stringify([{ id: 1, loop: true }, { id: 2 }]));
  expect(looping).toMatchObject({ status: 400, body: { accepted: 1, problems: [{ index: 0 }] } });

  // Prototype keys are data.
  const proto = '{"id":"p","__proto__":{"admin":true},"constructor":{"x":1}}';
  expect(await post("plain", proto)).toMatchObject({ status: 200 });
  const { data } = (await received()).at(-1) ?? {};
  expect(JSON.stringify(data)).toContain('"__proto__":{"admin":true}');
  expect(({} as { admin?: boolean }).admin).toBeUndefined();
  expect(server.defects).toEqual([]);

  // A list of 10,000 events is stored, and a second delivery of some of them recognised.
  const items = Array.from({ length: 10_000 }, (_, id) => ({
    at: 1_795_167_011 + id,
    contact: { id, first_name: "Ada", last_name: "Lovelace", note: "x".repeat(250) },
  }));
  const bodyOf = (some: typeof items) => JSON.stringify({ delivery: "d-2", data: { items: some } });
  expect(await post("list", bodyOf(items))).toEqual({
    status: 200,
    body: { accepted: 10_000, duplicates: 0 },
  });
  expect(await post("list", bodyOf(items.slice(0, 100)))).toEqual({
    status: 200,
    body: { accepted: 0, duplicates: 100 },
  });
});
