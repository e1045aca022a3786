/** Change events of Debezium, in the forms of its documentation, through a webhook of two lines. */
import { createHmac } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { jsonEndpoint } from "../../../src/intake/crm/json-webhook.ts";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { eventOrder } from "../../../src/core/event/event-order.ts";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { fixtureText } from "../../support/fixtures.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

const SECRET = `whsec_${Buffer.from("a key of at least 24 bytes").toString("base64")}`;

async function read(body: string, text = fixtureText("debezium/mapping.yaml")) {
  await using file = await temporaryFile("mapping.yaml");
  await writeFile(file.path, text);
  const mapping = await loadMapping(file.path);
  try {
    const [webhook] = mapping.webhooks;
    if (webhook === undefined) throw new Error("no webhook");
    const endpoint = jsonEndpoint(webhook);
    const now = Date.now();
    const head = ["msg_1", String(Math.floor(now / 1000))];
    const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
    const signature = createHmac("sha256", key)
      .update([...head, body].join("."))
      .digest("base64");
    const request = {
      path: "",
      urls: [],
      query: new URLSearchParams(),
      headers: {
        "content-type": "application/json",
        "webhook-id": head[0],
        "webhook-timestamp": head[1],
        "webhook-signature": `v1,${signature}`,
      },
      body: Buffer.from(body),
      receivedAt: now,
    };
    expect(endpoint.verify(request, [SECRET])).toMatchObject({ ok: true });
    const forged = { ...request, body: Buffer.from(`${body} `) };
    expect(endpoint.verify(forged, [SECRET])).toMatchObject({ ok: false });
    const { events, each } = await endpoint.toEvents(request, false);
    return { events, problems: each?.problems ?? [], of: each?.of };
  } finally {
    await mapping.close();
  }
}

const what = (events: Awaited<ReturnType<typeof read>>["events"]) =>
  events.map(({ type, subject, lane, time, data }) => [
    `${type.slice("crm.record.".length)} ${subject}${lane === undefined ? "" : ` ${lane}`}`,
    time,
    data?.record,
  ]);

const ANNE = { first_name: "Anne", last_name: "Kretchmar", email: "annek@example.org" };

test("PostgreSQL: a snapshot, updates with a large value that did not change, a deletion", async () => {
  const { events, problems, of } = await read(fixtureText("debezium/postgresql.json"));
  expect({ of, problems }).toEqual({ of: 7, problems: [] });
  const row = { id: 1, ...ANNE, born: "1992-01-01", changed: "2018-06-20T15:13:16.945" };
  const updated = { ...row, first_name: "Anne Marie" };
  expect(what(events)).toEqual([
    ["updated customers/1 bulk", "2019-05-28T08:58:24.863Z", { ...row, notes: "long" }],
    ["updated customers/1", "2019-05-28T08:59:59.000Z", updated],
    ["updated customers/1", "2019-05-28T08:59:59.000Z", { ...updated, last_name: "Kent" }],
    ["deleted customers/1", "2019-05-28T09:15:04.863Z", undefined],
  ]);
  for (const { data } of events.slice(0, 3)) expect(data).toMatchObject({ partial: true });
});

test("MySQL, without a schema: a time that is not known is Debezium's own", async () => {
  const { events, problems, of } = await read(fixtureText("debezium/mysql.json"));
  expect({ of, problems }).toEqual({ of: 6, problems: [] });
  const row = { id: 1004, ...ANNE, born: 8035, credit: "1250.50" };
  expect(what(events)).toEqual([
    ["created customers/1004", "2016-06-09T16:56:51.815Z", row],
    ["updated customers/1004", "2016-06-10T17:50:29.000Z", { ...row, first_name: "Anne Marie" }],
    ["updated customers/1004", "2016-06-10T17:50:29.000Z", { ...row, first_name: "Anne Maria" }],
    ["deleted customers/1004", "2016-06-10T18:05:02.000Z", undefined],
  ]);
});

test("SQL Server and Oracle: dates, decimals, names in capitals, a source without a table", async () => {
  const server = await read(fixtureText("debezium/sqlserver.json"));
  const john = {
    id: 1005,
    first_name: "john",
    last_name: "doe",
    email: "john.doe@example.org",
    born: "1966-12-31",
    changed: "2018-06-20T15:13:16.945",
    credit: "-1250.50",
  };
  expect(what(server.events)).toEqual([
    ["updated customers/1005 bulk", "2019-06-05T10:11:00.000Z", john],
    ["created customers/1005", "2019-06-05T10:11:08.470Z", john],
    [
      "updated customers/1005",
      "2019-06-05T10:11:08.470Z",
      { ...john, email: "noreply@example.org" },
    ],
    ["deleted customers/1005", "2019-06-05T10:27:25.243Z", undefined],
  ]);
  const oracle = await read(fixtureText("debezium/oracle.json"));
  expect(what(oracle.events).map(([first]) => first)).toEqual([
    "created CUSTOMERS/1004",
    "updated CUSTOMERS/1004",
    "deleted CUSTOMERS/1004",
    "created CUSTOMERS/1005",
  ]);
  expect(oracle.events[0]?.data?.record).toMatchObject({
    BORN: "1992-01-01T00:00:00.000",
    CREDIT: "1250.5",
  });
});

test("CloudEvents, with the row, its schema or the whole envelope in data", async () => {
  const { events, problems } = await read(fixtureText("debezium/cloudevents.json"));
  const bob = { id: 1, first_name: "Bob", last_name: "Ross" };
  expect(problems).toEqual([]);
  expect(what(events)).toEqual([
    ["updated customers/1 bulk", "2020-01-13T13:55:39.738Z", { ...bob, born: 8035 }],
    ["updated customers/1", "2020-01-13T13:55:40.000Z", { ...bob, born: "1992-01-01" }],
    ["deleted customers/1", "2020-01-13T13:55:41.000Z", undefined],
    ["updated customers/1", "2020-01-13T13:55:42.000Z", { ...bob, born: 8035 }],
  ]);
});

test.for(["postgresql", "mysql", "sqlserver", "oracle", "cloudevents"])(
  "%s: events of one time are in the order of the log, and a second delivery has the same ids",
  async (name) => {
    const body = fixtureText(`debezium/${name}.json`);
    const { events } = await read(body);
    const orders = events.map((event) => {
      const parsed = parseEvent(event, Date.now());
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
      // Oracle's examples are dated in another order than their numbers.
      const time = name === "oracle" ? "2026-01-01T00:00:00Z" : (event.time ?? "");
      return eventOrder({ ...parsed.event, time }, 0);
    });
    const inOrder = name === "oracle" ? orders.slice(0, 3) : orders;
    expect(inOrder).toEqual(inOrder.toSorted());
    expect(new Set(inOrder).size).toBe(inOrder.length);
    const ids = events.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect((await read(body)).events.map(({ id }) => id)).toEqual(ids);
  },
);

test("one event alone, and a tombstone alone", async () => {
  const [first] = JSON.parse(fixtureText("debezium/mysql.json")) as unknown[];
  expect(what((await read(JSON.stringify(first))).events)).toHaveLength(1);
  expect(await read("null")).toMatchObject({ events: [], problems: [], of: 1 });
});

test.for([
  [{ id: 1, first_name: "Anne" }, "without the transform ExtractNewRecordState"],
  [{ op: "d", before: null, source: {} }, "needs REPLICA IDENTITY FULL"],
  [{ specversion: "1.0", data: "AAAAAAEAAgICAg==" }, "must be JSON (not Avro)"],
  [{ op: "c", after: { no: 1 }, source: {} }, "`$exists(id) ? id : ID` found nothing"],
  [{ op: "x", after: { id: 1 } }, "with `op` (c, r, u or d)"],
] as const)("%j is refused: %s", async ([body, rule]) => {
  const { events, problems } = await read(JSON.stringify(body));
  expect(events).toEqual([]);
  expect(problems.map((problem) => problem.rule)).toHaveLength(1);
  expect(problems[0]?.rule).toContain(rule);
});

test("what the mapping file says goes before the format; expressions see the row and its source", async () => {
  const text = fixtureText("debezium/mapping.yaml").replace(
    "format: debezium",
    `format: debezium
    recordId: '$body.source.db & "-" & id'
    object: { value: contact }
    operation: { from: $body.op, table: { d: null }, default: updated }`,
  );
  const { events, of } = await read(fixtureText("debezium/mysql.json"), text);
  expect(of).toBe(6);
  expect(what(events).map(([first]) => first)).toEqual(
    Array.from({ length: 3 }, () => "updated contact/inventory-1004"),
  );
});
