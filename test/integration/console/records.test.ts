/** The tab Records over real HTTP: the answer first, and the way to where a person decides. */
import { expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { editStaged, ordersAt, rowAt } from "../../support/stores-of.ts";
import { linksIn, OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";
import { CRM_APIS, standInFor } from "../../support/crm-stand-ins.ts";
import { notedEventOf } from "../../support/noted-event.ts";
import { waitingState } from "../../support/waiting-state.ts";
import { hold } from "../../support/hold.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

test("a record is found by its crmCode, with its fate, remedy and the way to decide", async () => {
  await using server = await serveConsole();
  const { deadLetters } = server.runtime;
  const problems = [{ field: "birthDate", rule: "must be a date", kind: "a number" }];
  const event = JSON.stringify(personEvent("r 1/x", { lastName: "Xq7Leak" }));
  const letter = { reason: "invalid" as const, problems, event, at: Date.now() };
  await deadLetters.store(createDeadLetter({ crmCode: "r 1/x" }, letter));
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const find = async (name: string) =>
    (await viewer.request(`/console/records?${new URLSearchParams({ name }).toString()}`)).text;

  const rejected = await find("r 1/x");
  expect(rejected).toContain("birthDate");
  expect(rejected).toContain("What it means, and what to do");
  expect(rejected.split("<details")[0]).not.toMatch(/redrive|crmsync dead/);
  expect(rejected).not.toContain("Xq7Leak");
  const [address = ""] = linksIn(rejected, "/console/dead/letter");
  expect((await viewer.request(address)).text).toContain("birthDate");
  expect(linksIn(await find("h1"), "/console/held")).toHaveLength(2);

  // Blanks are part of a crmCode; those that were pasted around a known name are not.
  await deadLetters.store(createDeadLetter({ crmCode: " blank " }, letter));
  expect(await find(" blank ")).toContain("birthDate");
  expect(await find("\tr 1/x ")).toContain("birthDate");

  const trap = `<script>"onload='x'\u202e`;
  const unknown = await find(trap);
  expect(unknown).toContain("&lt;script&gt;");
  expect(unknown).not.toMatch(/<script>|"onload|\u202e/);
});

test("each record of a list leads to its page in the CRM, where the mapping knows that", async () => {
  const links = new Map([["contact", "https://crm.example/{object}/{id}"]]);
  await using server = await serveConsole({}, { ...businessRelationMapping, links });
  const noted = { event: notedEventOf({ subject: "contact/a b" }), ignored: undefined };
  await server.runtime.staged.stage({ ...waitingState("w 1", "live"), noted });
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const { text } = await viewer.request("/console/records");
  const [path = ""] = linksIn(text, "/console/records/crm");
  expect(path).toBe("/console/records/crm?name=w+1");
  const leads = async (name: string) =>
    (await viewer.request(`/console/records/crm?name=${name}`)).headers.get("location");
  expect(await leads("w+1")).toBe("https://crm.example/contact/a%20b");
  expect(await leads("//evil.example")).toBe("/console/records?name=%2F%2Fevil.example");
  await using other = await serveConsole();
  await other.runtime.staged.stage(waitingState("w 1", "live"));
  const plain = other.visitor();
  await plain.logIn(VIEWER);
  expect((await plain.request("/console/records")).text).not.toContain("/console/records/crm");
});

test("before a search, the page shows what waits longest; a name of a person is not kept", async () => {
  await using server = await serveConsole();
  const { settledLately, staged } = server.runtime;
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  expect((await viewer.request("/console/records")).text).toContain("No change waits.");
  for (const code of ["w1", "w2"]) await staged.stage(waitingState(code, "live"));
  settledLately.note(
    { crmCode: "s/1", orders: ordersAt("1") },
    { row: rowAt("1"), finished: true },
    0,
  );
  const { text } = await viewer.request("/console/records");
  expect(text).toMatch(/What waits longest[^]*>w1<[^]*>w2<[^]*Latest changes[^]*name=s%2F1/);

  for (const name of ["Ada Muster", "Müller", "ada@example.org"]) {
    const path = `/console/records?${new URLSearchParams({ name }).toString()}`;
    expect((await viewer.request(path)).text, name).toContain("keeps no names or addresses");
  }
  expect((await viewer.request("/console/records?name=4711")).text).not.toContain("keeps no names");
});

test("all records are listed by state and text, a page at a time; a record goes to the service by an operator", async () => {
  const crm = CRM_APIS.find((one) => one.name === "espocrm");
  if (crm === undefined) throw new Error("no CRM");
  await using api = await standInFor(crm);
  await using server = await serveConsole({ ...crm.settings(api.url), ...crm.secrets });
  const { inbox, staged } = server.runtime;
  for (let n = 10; n < 80; n += 1) await staged.stage(waitingState(`w-${n}`, "bulk"));
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const found: string[] = [];
  let path: string | undefined = "/console/records/list?state=waiting";
  for (let pages = 0; path !== undefined; pages += 1) {
    expect(pages).toBeLessThan(9);
    const { text } = await viewer.request(path);
    found.push(...linksIn(text, "/console/records?name="));
    path = linksIn(text, "/console/records/list").find((link) => link.includes("from="));
  }
  expect(new Set(found).size).toBe(70);
  expect(found).toHaveLength(70);
  expect((await viewer.request("/console/records/list?state=held")).text).toMatch(/>h1<[^]*held/);
  const one = (await viewer.request("/console/records/list?text=W-42")).text;
  expect(linksIn(one, "/console/records?name=")).toEqual(["/console/records?name=w-42"]);
  expect((await viewer.request("/console/records/list?from=ledger:x")).status).toBe(200);

  const name = `${crm.object}/${crm.recordId}`;
  await staged.stage({ ...waitingState("s-1", "live"), noted: notedOf(name) });
  const story = `/console/records?${new URLSearchParams({ name }).toString()}`;
  expect(linksIn((await viewer.request(story)).text, "/console/records/sync")).toEqual([]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const [sync = ""] = linksIn((await operator.request(story)).text, "/console/records/sync");
  const { text: shown } = await operator.request(sync);
  expect(shown).toMatch(new RegExp(`${crm.name} has ${name}, read `));
  expect(await inbox.queue.count()).toBe(0);
  const sent = await operator.submit(sync, "/console/records/sync");
  expect(sent.text).toContain("The record is on its way");
  expect(await inbox.queue.count()).toBe(1);
});

test("Now leads to as many records as it says wait, and they are exported as on the page", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "stdout" });
  const { auditActs, inbox, staged } = server.runtime;
  for (const code of ["=1+1", "w-2", "w-3"]) await staged.stage(waitingState(code, "live"));
  await editStaged(server.runtime, "w-3", (one) => ({
    ...one,
    due: Date.now() + 60_000,
    tries: { failed: 1, firstAt: 1, since: 1, why: "500 (server_error)" },
  }));
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const login = await auditActs.next();
  if (login !== undefined) await auditActs.written(login);
  const now = (await viewer.request("/console")).text;
  const [list = ""] = linksIn(now, "/console/records/list?state");
  expect(now).toMatch(/<a href="[^"]*state=waiting%2Cretrying">3 changes<\/a>/);
  const page = (await viewer.request(list)).text;
  expect(page).toMatch(/<option value="waiting,retrying"\s+selected/);
  expect(linksIn(page, "/console/records?name=")).toHaveLength(3);

  const form = { form: proofIn(page), text: "" };
  const all = await viewer.post("/console/records/list/export", { ...form, state: "" });
  expect(all.headers.get("content-disposition")).toMatch(/"records-\d{4}-\d\d-\d\d\.csv"/);
  expect(all.text.split("\r\n")).toHaveLength(6);
  expect(all.text).toContain("\r\n'=1+1,");
  const asked = { ...form, state: "waiting,retrying", text: "W-" };
  const { text } = await viewer.post("/console/records/list/export", asked);
  const rows = text.trim().split("\r\n").slice(1);
  expect(new Set(rows.map((row) => row.split(",")[3]))).toEqual(new Set(["retrying", "waiting"]));
  expect((await auditActs.next())?.line).toMatchObject({
    act: "console.export",
    list: "records",
    isSearch: false,
  });
  const forged = await viewer.post("/console/records/list/export", { state: "" });
  expect(forged.status).toBe(403);

  // What has just arrived has no record yet: the link says how many it lists.
  await inbox.push([personEvent("new")]);
  const later = await waitFor(
    async () => {
      const { text: page } = await viewer.request("/console");
      return page.includes(">4 changes<") ? page : undefined;
    },
    { what: "the event" },
  );
  expect(later).toMatch(/state=waiting%2Cretrying">3 in line<\/a>, 1 just arrived/);
});

const notedOf = (subject: string) => ({
  event: {
    source: "/crm/test",
    id: "1",
    type: "updated" as const,
    subject,
    time: undefined,
    warnings: [],
    redriven: false,
  },
  ignored: undefined,
});
