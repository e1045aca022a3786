/** Acts that need a second person, on the console: over real HTTP, as browsers and attackers send them. */
import { expect, test } from "vitest";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { linksIn, proofIn, serveConsole, VIEWER, type Visitor } from "../../support/console.ts";
import { hold } from "../../support/hold.ts";
import { personEvent } from "../../support/person-event.ts";

const ANNA = "token-of-anna-with-24-characters";
const ANNA_AT_HOME = "another-token-of-anna-24-characters";
const BEN = "token-of-ben-with-24-characters";
const CARL = "token-without-a-name-24-characters";

const ENV = {
  APPROVALS: "held,drop",
  AUDIT_LOG: "/dev/null",
  OPERATOR_TOKEN: `anna:${ANNA} ANNA@firm.example:${ANNA_AT_HOME} ben:${BEN} ${CARL}`,
};

async function visitorOf(
  server: Awaited<ReturnType<typeof serveConsole>>,
  token: string,
): Promise<Visitor> {
  const visitor = server.visitor();
  await visitor.logIn(token);
  return visitor;
}

/** @returns the id of what was asked. */
async function askToRelease(visitor: Visitor): Promise<string> {
  const { text } = await visitor.request("/console/held");
  const [confirm = ""] = linksIn(text, "/console/held/confirm?act=release&at=");
  const page = await visitor.request(confirm);
  expect(page.text).toContain("Ask for approval: Release 2 held changes");
  const asked = await visitor.submit(confirm, "/console/held?act=release");
  expect(asked.text).toContain("Nothing is done until another person approves it");
  return /Approval ([2-9A-Z]{6})/.exec(asked.text)?.[1] ?? "";
}

async function withHeld() {
  const server = await serveConsole(ENV);
  const { keys, redis } = server.runtime;
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  await hold(server.runtime, "h2", "contact/2", "/crm/a");
  return { server, held: () => redis.zcard(keys.heldTerminations) };
}

test("one asks, another one sees what it is about and approves", async () => {
  const { held, server } = await withHeld();
  await using _ = server;
  const id = await askToRelease(await visitorOf(server, ANNA));
  expect(await held()).toBe(2);
  const ben = await visitorOf(server, BEN);
  const list = (await ben.request("/console/approvals")).text;
  expect(list).toContain(`${id}: release 2 held changes`);
  expect(list).toContain("anna via console at 127.0.0.1");
  const [one = ""] = linksIn(list, "/console/approvals/one");
  // So that nobody asks twice.
  expect(linksIn((await ben.request("/console/held")).text, one)).toHaveLength(1);
  const page = (await ben.request(one)).text;
  expect(linksIn(page, "/console/records?name=")).toHaveLength(2);
  const done = await ben.submit(one, "/console/approvals/approve");
  expect(done.text).toContain("was approved by ben via console");
  expect(done.text).toContain("2 held changes released");
  expect(await held()).toBe(0);
  // The same form once more.
  const again = await ben.post(`/console/approvals/approve?id=${id}`, { form: proofIn(page) });
  expect(again).toMatchObject({ status: 400 });
  expect(again.text).toContain("was approved by ben");
  const { auditActs } = server.runtime;
  const lines: Record<string, unknown>[] = [];
  for (let act; (act = await auditActs.next()) !== undefined; await auditActs.written(act))
    if (act.line["act"] !== "console.login") lines.push(act.line);
  const by = "anna via console at 127.0.0.1";
  const approvedBy = "ben via console at 127.0.0.1";
  expect(lines).toMatchObject([
    { act: "approval.ask", by, approval: id },
    { act: "approval.approve", by: approvedBy, approval: id },
    { act: "held.release", crmCode: "h1", by, approvedBy, approval: id },
    { act: "held.release", crmCode: "h2", by, approvedBy, approval: id },
  ]);
});

test.for([
  ["the one who has asked", ANNA, 400, "another person must approve it"],
  ["another token of that person", ANNA_AT_HOME, 400, "another person must approve it"],
  ["a token without a name", CARL, 400, "Your token has no name"],
  ["a viewer", VIEWER, 403, "only look"],
] as const)("%s cannot approve", async ([, token, status, says]) => {
  const { held, server } = await withHeld();
  await using _ = server;
  const id = await askToRelease(await visitorOf(server, ANNA));
  const visitor = await visitorOf(server, token);
  const page = (await visitor.request(`/console/approvals/one?id=${id}`)).text;
  expect(page).not.toContain("/console/approvals/approve");
  const form = proofIn((await visitor.request("/console/held")).text);
  const answer = await visitor.post(`/console/approvals/approve?id=${id}`, { form });
  expect(answer).toMatchObject({ status });
  expect(answer.text).toContain(says);
  expect(await held()).toBe(2);
});

test("another site, another session and a token that got another name approve nothing", async () => {
  const { held, server } = await withHeld();
  await using _ = server;
  const anna = await visitorOf(server, ANNA);
  const id = await askToRelease(anna);
  const path = `/console/approvals/approve?id=${id}`;
  const ben = await visitorOf(server, BEN);
  const form = proofIn((await ben.request("/console/approvals")).text);
  const foreign = await ben.post(path, { form }, { origin: "https://evil.example" });
  expect(foreign).toMatchObject({ status: 403 });
  // The form of the one who has asked, in the browser of the other one.
  const stolen = proofIn((await anna.request("/console/approvals")).text);
  expect(await ben.post(path, { form: stolen })).toMatchObject({ status: 403 });
  expect(await ben.post(path, {})).toMatchObject({ status: 403 });
  // The token with which it was asked belongs to another name by now.
  await using renamed = await serveConsole({
    ...ENV,
    QUEUE_PREFIX: server.runtime.config.QUEUE_PREFIX,
    OPERATOR_TOKEN: `dora:${ANNA} emma:${ANNA_AT_HOME}`,
  });
  // So does the other token of the same person.
  for (const token of [ANNA, ANNA_AT_HOME]) {
    const other = await visitorOf(renamed, token);
    const own = proofIn((await other.request("/console/approvals")).text);
    const answer = await other.post(path, { form: own });
    expect(answer.text).toContain("another person must approve it");
  }
  expect(await held()).toBe(2);
});

test("a process without APPROVALS asks, too, while another one has it", async () => {
  const { held, server } = await withHeld();
  await using _ = server;
  await server.runtime.approvals.keepRule({ acts: ["held"], holders: {} });
  const { QUEUE_PREFIX } = server.runtime.config;
  await using other = await serveConsole({ ...ENV, APPROVALS: "", QUEUE_PREFIX });
  await askToRelease(await visitorOf(other, ANNA));
  expect(await held()).toBe(2);
});

test("dead letters are dropped with an approval, and redriven without one", async () => {
  await using server = await serveConsole(ENV);
  const { deadLetters } = server.runtime;
  const event = JSON.stringify(personEvent("a"));
  const letter = createDeadLetter(
    { crmCode: "a" },
    { reason: "invalid", problems: [], event, at: 1 },
  );
  await deadLetters.store(letter);
  const anna = await visitorOf(server, ANNA);
  const path = (act: string) => `/console/dead/confirm?act=${act}&id=${letter.id}&at=1`;
  expect((await anna.request(path("redrive"))).text).not.toContain("Ask for approval");
  const asked = await anna.submit(path("drop"), "/console/dead?act=drop");
  expect(asked.text).toContain("Asked: approval");
  expect(await deadLetters.count()).toBe(1);
  const id = /Approval ([2-9A-Z]{6})/.exec(asked.text)?.[1] ?? "";
  const ben = await visitorOf(server, BEN);
  const rejected = await ben.submit(`/console/approvals/one?id=${id}`, "/console/approvals/reject");
  expect(rejected.text).toContain("was rejected by ben");
  expect(await deadLetters.count()).toBe(1);
});

test("what was approved before a crash is visible, and carried out by the next click", async () => {
  const { held, server } = await withHeld();
  await using _ = server;
  const id = await askToRelease(await visitorOf(server, ANNA));
  const one = await server.runtime.approvals.find(id);
  if (one === undefined) throw new Error("it is not there");
  // As it is after a kill -9 between the approval and the act.
  await server.runtime.approvals.change(one, {
    state: "approved",
    decider: { ...one.asker, by: "ben" },
  });
  const ben = await visitorOf(server, BEN);
  const path = `/console/approvals/one?id=${id}`;
  expect((await ben.request(path)).text).toContain(
    "was approved by ben, and is not carried out yet",
  );
  expect((await ben.submit(path, "/console/approvals/again")).text).toContain(
    "2 held changes released",
  );
  expect(await held()).toBe(0);
});
