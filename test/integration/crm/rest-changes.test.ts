/** What the section `pull` of a mapping file finds in a REST API, over real HTTP. */
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createCrmApi } from "../../../src/intake/crm/api-client.ts";
import type { PulledChange } from "../../../src/intake/crm/change-puller.ts";
import { restRecords } from "../../../src/intake/crm/rest-changes.ts";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { pullSources } from "../../../src/intake/mapping/pull-rule.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

type Json = Record<string, unknown>;
interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body: unknown;
}
/** Answers with a page, by its number from 0. */
type Paged = (page: readonly Json[], number: number, isLast: boolean, url: URL) => Answer;

const SIZE = 3;
const NOW = Date.parse("2026-11-21T08:00:00.000Z");
const at = (clock: string) => `2026-11-21T${clock}.000Z`;

/** Ways of paging: what the mapping file says, how the API knows the page that is asked for, and what it answers. */
const WAYS: Readonly<Record<string, readonly [yaml: string, asked: string, answer: Paged]>> = {
  next: [
    "records: data\npaging: { next: links.next }",
    "at",
    (page, number, isLast, url) => {
      url.searchParams.set("at", String(number + 1));
      const next = isLast ? null : url.pathname + url.search;
      return { body: { data: page, links: { next } } };
    },
  ],
  link: [
    "paging: link",
    "at",
    (page, number, isLast, url) => {
      const first = `<${url.href}>; rel="first"`;
      url.searchParams.set("at", String(number + 1));
      const link = isLast ? first : `${first}, <${url.href}>; title=a; rel='last NEXT'`;
      return { headers: { link }, body: page };
    },
  ],
  token: [
    "records: data.items\npaging: { token: data.cursor, parameter: after }",
    "after",
    (page, number, isLast) => ({
      body: { data: { items: page, ...(!isLast && { cursor: number + 1 }) } },
    }),
  ],
  page: ["paging: { page: p }", "p", (page) => ({ body: page })],
};

const NO_PAGES: NonNullable<(typeof WAYS)[string]> = ["", "", (page) => ({ body: page })];

async function api(way = "next", more = "deleted: gone") {
  const [yaml, parameter, answer] = WAYS[way] ?? NO_PAGES;
  const records = new Map<string, Json>();
  const requests: IncomingMessage[] = [];
  const faults: Answer[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    const url = new URL(request.url ?? "", `http://${request.headers.host}`);
    const since = url.searchParams.get("since") ?? "";
    const found = [...records.values()]
      .filter(({ changed }) => String(changed) >= since)
      .toSorted((a, b) => (String(a["changed"]) < String(b["changed"]) ? -1 : 1));
    const asked = Number(url.searchParams.get(parameter) ?? (way === "page" ? 1 : 0));
    const number = way === "page" ? asked - 1 : asked;
    const page = found.slice(number * SIZE, (number + 1) * SIZE);
    const isLast = (number + 1) * SIZE >= found.length;
    const {
      status = 200,
      headers,
      body,
    } = faults.shift() ?? answer(page, number, isLast, new URL(url));
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const rules = `${yaml}\n${more}`.replaceAll(/^/gm, "    ");
  const { objects, pull } = readMappingFile(
    `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }
pull:
  acme:
    url: http://127.0.0.1:${port}/v1/{object}?since={since}&limit=3
    headers: { Authorization: "Bearer {ACME_TOKEN}" }
    objects: { contact: contacts }
    time: changed
${rules}\n`,
    "m.yaml",
  );
  const [described] = pullSources(
    pull,
    objects.flatMap(({ object }) => object),
  );
  if (described === undefined) throw new Error("no source");
  const source = restRecords(described);
  const client = createCrmApi({
    timeoutMs: 5000,
    wrapsLists: true,
    proxy: { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined },
  });
  const asked = { ...client, setting: (name: string) => `secret of ${name}` };
  const opened = await source.open(asked, "Contact", new Set());
  if (opened.kind !== "records") throw new Error(opened.kind);
  const { changes } = opened;
  return {
    source,
    changes,
    client: asked,
    requests,
    faults,
    set: (id: number, changed: string, fields: Json = {}) =>
      void records.set(String(id), { id, changed, gone: false, ...fields }),
    async begin() {
      const begun = await changes.begin(NOW);
      if (begun.kind !== "begun") throw new Error("no cursor");
      return begun.cursor;
    },
    /** All pages; `between` is called after each. */
    async pull(from: string, now: string, between: (pages: number) => void = () => {}) {
      const found: PulledChange[] = [];
      let cursor = from;
      for (let pages = 1; ; pages += 1) {
        const page = await changes.page(cursor, Date.parse(now));
        if (page.kind !== "page") {
          const first = changes.restart(cursor);
          if (first === undefined) throw new Error(JSON.stringify(page));
          cursor = first;
          continue;
        }
        found.push(...page.changes);
        ({ cursor } = page);
        between(pages);
        if (!page.hasMore) return { found, cursor, pages };
      }
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const idsOf = (changes: readonly PulledChange[]) => [...new Set(changes.map(({ id }) => id))];

test.for(Object.keys(WAYS))(
  "paged by %s: changes since the cursor, then those after",
  async (way) => {
    await using crm = await api(way);
    const cursor = await crm.begin();
    crm.set(1, "2026-11-20T08:00:00.000Z");
    for (let id = 2; id < 10; id += 1) crm.set(id, at("08:01:00"), { name: `n${id}` });
    crm.set(10, "2027-11-21T08:00:00.000Z");
    crm.set(11, at("08:02:00"), { gone: "2026-11-21T08:02:00Z" });

    const first = await crm.pull(cursor, at("08:10:00"));
    expect(idsOf(first.found).toSorted()).toEqual([
      "10",
      "11",
      "2",
      "3",
      "4",
      "5",
      "6",
      "7",
      "8",
      "9",
    ]);
    expect(first.pages).toBeGreaterThanOrEqual(4);
    expect(first.found.find(({ id }) => id === "2")).toEqual({
      id: "2",
      at: at("08:01:00"),
      askedBy: at("08:01:00"),
      record: { id: 2, changed: at("08:01:00"), gone: false, name: "n2" },
    });
    expect(first.found.find(({ id }) => id === "11")).toEqual({
      id: "11",
      at: at("08:02:00"),
      askedBy: at("08:02:00"),
    });
    for (const { headers, url } of crm.requests) {
      expect(headers.authorization).toBe("Bearer secret of ACME_TOKEN");
      expect(url).toMatch(/^\/v1\/contacts\?since=2026-11-21T07%3A55%3A00.000Z&limit=3/);
    }

    // The record that is dated a year ahead hides nothing.
    crm.set(3, at("08:11:00"), { name: "later" });
    crm.requests.length = 0;
    const second = await crm.pull(first.cursor, at("08:15:00"));
    expect(second.found.find(({ id }) => id === "3")?.record).toMatchObject({ name: "later" });
    expect(idsOf(second.found)).not.toContain("1");
    expect(crm.requests[0]?.url).toContain("since=2026-11-21T07%3A57%3A00.000Z");
  },
);

test("a change during the pull is found by the next one; a place that was forgotten begins again", async () => {
  await using crm = await api("token");
  const cursor = await crm.begin();
  for (let id = 1; id < 8; id += 1) crm.set(id, at(`08:0${id}:00`));
  const first = await crm.pull(cursor, at("08:10:00"), (pages) => {
    if (pages !== 1) return;
    crm.set(1, at("08:09:00"), { name: "again" });
    crm.faults.push({ status: 400, body: { error: "expired" } });
  });
  const second = await crm.pull(first.cursor, at("08:15:00"));
  const all = [...first.found, ...second.found];
  expect(idsOf(all).toSorted()).toEqual(["1", "2", "3", "4", "5", "6", "7"]);
  expect(all.findLast(({ id }) => id === "1")?.record).toMatchObject({ name: "again" });
});

test.for([
  ["not JSON", { body: "<html>" }, { kind: "unavailable" }],
  ["no list", { body: { data: { hello: 1 } } }, { kind: "not_a_list" }],
  ["a list elsewhere", { body: { items: [] } }, { kind: "not_a_list" }],
  [
    "a record without an id",
    { body: { data: [{ changed: at("08:00:00") }] } },
    { kind: "not_a_list", reason: expect.stringContaining("no usable id") as string },
  ],
  ["a record that is a text", { body: { data: ["1"] } }, { kind: "not_a_list" }],
  [
    "a page elsewhere",
    { body: { data: [], links: { next: "https://evil.example/?at=1" } } },
    { kind: "not_a_list", reason: expect.stringContaining("token must not go") as string },
  ],
  [
    "a page that is no address",
    { body: { data: [], links: { next: {} } } },
    { kind: "not_a_list" },
  ],
  [
    "too many requests",
    { status: 429, headers: { "retry-after": "7" }, body: {} },
    { kind: "throttled", retryAfterMs: 7000 },
  ],
  ["no right", { status: 403, body: {} }, { kind: "client_error", isDenied: true }],
  ...([401, 403, 503] as const).map((status) => {
    const headers = { "retry-after": "7" };
    const kind = status === 503 ? "unavailable" : "client_error";
    return [
      `HTTP ${status} with a pause`,
      { status, headers, body: {} },
      { kind, retryAfterMs: 7000 },
    ] as const;
  }),
  [
    "a mark of deletion that is neither a yes nor a no",
    { body: { data: [{ id: 7, changed: at("08:00:00"), gone: "active" }] } },
    {
      kind: "not_a_list",
      reason: expect.stringContaining('gone of record 7 is "active"') as string,
    },
  ],
] as const)("%s is an answer without a cursor", async ([, fault, expected]) => {
  await using crm = await api();
  const cursor = await crm.begin();
  crm.faults.push(fault);
  expect(await crm.changes.page(cursor, NOW)).toMatchObject(expected);
  crm.set(1, at("08:01:00"));
  expect(idsOf((await crm.pull(cursor, at("08:10:00"))).found)).toEqual(["1"]);
});

test.for([
  ["204", { status: 204, body: "" }],
  ["304", { status: 304, body: "" }],
] as const)("HTTP %s: there is nothing new", async ([, fault]) => {
  await using crm = await api();
  const cursor = await crm.begin();
  crm.faults.push(fault);
  const page = await crm.changes.page(cursor, NOW);
  expect(page).toMatchObject({ kind: "page", changes: [], hasMore: false });
});

test.for([
  ["answers 404", { status: 404, body: {} }],
  ["repeats the last one", { body: [{ id: 1, changed: at("08:00:00") }] }],
  ["is empty", { body: [] }],
] as const)("the page after the last numbered one %s: that is the end", async ([, after]) => {
  await using crm = await api("page");
  const cursor = await crm.begin();
  crm.faults.push({ body: [{ id: 1, changed: at("08:00:00") }] }, after);
  const { cursor: next, found } = await crm.pull(cursor, at("08:01:00"));
  expect(idsOf(found)).toEqual(["1"]);
  expect(JSON.parse(next)).toEqual({ since: at("07:55:00") });
  crm.faults.push({ status: 404, body: {} });
  expect((await crm.changes.page(next, NOW)).kind).toBe("not_found");
});

const NEW_YORK = "America/New_York";

test.for([
  ["2026-11-21", "zone: America/New_York", "2026-11-21T05:00:00.000Z", "2026-11-22T03:59:59.999Z"],
  ["2026-11-21", "", "2026-11-21T00:00:00.000Z", "2026-11-21T22:59:59.999Z"],
  ["2026-11-21T03:00", `zone: ${NEW_YORK}`, at("08:00:00"), "2026-11-21T08:00:59.999Z"],
  ["2026-11-21 03:00:00", `zone: ${NEW_YORK}`, at("08:00:00"), "2026-11-21T08:00:00.999Z"],
  ["2026-11-21T03:00:00.5", `zone: ${NEW_YORK}`, "2026-11-21T08:00:00.500Z", undefined],
  ["2026-11-21 08:00", "", at("08:00:00"), "2026-11-21T08:00:59.999Z"],
  ["2026-11-21T08:00:00+00:00", `zone: ${NEW_YORK}`, at("08:00:00"), "2026-11-21T08:00:00.999Z"],
  [1_795_248_000_000, "", at("08:00:00"), undefined],
] as const)("the time %s, with `%s`", async ([changed, zone, first, last = first]) => {
  await using crm = await api("next", zone);
  const cursor = await crm.begin();
  crm.faults.push({ body: { data: [{ id: 1, changed }] } });
  const page = await crm.changes.page(cursor, Date.parse("2026-11-23"));
  const change = { id: "1", at: last, askedBy: first, record: { id: 1, changed } };
  expect(page).toMatchObject({ kind: "page", changes: [change] });
});

test.for(["soon", undefined, null, "0001-01-01T00:00:00Z", "1970-01-01", 0, "1753-01-01"])(
  "a record whose time is %s is taken as of now, and does not stop the others",
  async (changed) => {
    await using crm = await api();
    const cursor = await crm.begin();
    const data = [
      { id: 1, changed },
      { id: 2, changed: at("08:01:00") },
    ];
    crm.faults.push({ body: { data } });
    const { cursor: next, found } = await crm.pull(cursor, at("08:02:00"));
    expect(found.map(({ at: time, askedBy, id }) => [id, time, askedBy])).toEqual([
      ["1", undefined, ""],
      ["2", at("08:01:00"), at("08:01:00")],
    ]);
    expect(JSON.parse(next)).toEqual({ since: at("07:56:00") });
  },
);

test("by days: it is asked from the day before, and a second change of the day is another one", async () => {
  await using crm = await api("next", "since: date");
  crm.set(1, "2026-11-21", { name: "a" });
  const first = await crm.pull(await crm.begin(), at("08:05:00"));
  crm.set(1, "2026-11-21", { name: "b" });
  const second = await crm.pull(first.cursor, at("08:10:00"));
  const names = [...first.found, ...second.found].map(({ record }) => record?.["name"]);
  expect(names).toEqual(["a", "b"]);
  const asked = crm.requests.map(({ url = "" }) => /since=([\d-]+)/.exec(url)?.[1] ?? "");
  expect(asked).toEqual(["2026-11-20", "2026-11-20"]);
});

test.for([
  ["iso-seconds", "2026-11-21T07%3A55%3A00Z"],
  ["date", "2026-11-20"],
  ["seconds", "1795247700"],
  ["milliseconds", "1795247700000"],
] as const)("the cursor as %s; a word for a deletion", async ([form, written]) => {
  await using crm = await api(
    "next",
    `since: ${form}\nid: key.no\ndeleted: { from: state, is: [removed, 9] }`,
  );
  const cursor = await crm.begin();
  const record = { changed: 1_795_248_000, gone: 0 };
  const data = [7, 8, 9].map((no) => ({ ...record, key: { no }, state: no }));
  crm.faults.push({
    body: { data: [...data, { ...record, key: { no: "x/1" }, state: "removed" }] },
  });
  const { found } = await crm.pull(cursor, at("08:10:00"));
  const time = { at: "2026-11-21T08:00:00.999Z", askedBy: at("08:00:00") };
  expect(found).toEqual([
    { id: "7", ...time, record: data[0] },
    { id: "8", ...time, record: data[1] },
    { id: "9", ...time },
    { id: "x/1", ...time },
  ]);
  expect(crm.requests[0]?.url).toContain(`?since=${written}&`);
});

test("the same section lists all records, for reconcile and for the first pull", async () => {
  await using crm = await api("next");
  for (let id = 1; id < 8; id += 1) crm.set(id, `2020-01-0${id}T00:00:00.000Z`, { gone: id === 4 });
  const { needs, pauseMs } = crm.source;
  expect({ needs, pauseMs }).toEqual({ needs: ["ACME_TOKEN"], pauseMs: 250 });
  const all = await crm.source.open(crm.client, "contact", new Set());
  if (all.kind !== "records") throw new Error(all.kind);
  const ids: string[] = [];
  let next: string | undefined;
  do {
    const page = await all.list(next);
    if (page.kind !== "page") throw new Error(page.kind);
    ids.push(...page.records.map(({ id }) => id));
    ({ next } = page);
  } while (next !== undefined);
  expect(ids).toEqual(["1", "2", "3", "5", "6", "7"]);
  expect(crm.requests[0]?.url).toContain("since=1970-01-01T00%3A00%3A00.000Z");
  expect(await crm.source.open(crm.client, "company", new Set())).toMatchObject({
    kind: "not_found",
  });
});

test("the daemon's mapping has the sources of its file", async () => {
  await using file = await temporaryFile("mapping.yaml");
  await writeFile(
    file.path,
    `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }
pull:
  acme: { url: "https://api.acme.example/contacts?since={since}", time: changed, pause: 50 }
`,
  );
  const mapping = await loadMapping(file.path);
  try {
    const sources = (mapping.pulls ?? []).map((one) => [
      one.name,
      Object.keys(one.objects),
      restRecords(one).pauseMs,
    ]);
    expect(sources).toEqual([["acme", ["contact"], 50]]);
  } finally {
    await mapping.close();
  }
});
