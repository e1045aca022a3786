/** The tab Dead letters over real HTTP: by fault, in three clicks, with a preview, and recorded. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { Stores } from "../../../src/operate/status/stores.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { Problem } from "../../../src/core/event/problem.ts";
import {
  linksIn,
  OPERATOR,
  proofIn,
  serveConsole,
  VIEWER,
  type Visitor,
} from "../../support/console.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

const FAULT: Problem = {
  field: "birthDate",
  rule: "must be a date",
  kind: "a string of 8 characters",
};

const letterOf = (crmCode: string, fields: object = {}, fault: Problem = FAULT) => {
  const event = personEvent(crmCode, { ...fields });
  return createDeadLetter(
    { crmCode },
    {
      reason: "invalid",
      problems: [fault],
      event: JSON.stringify(event),
      source: "/crm/a",
      at: Date.now(),
    },
  );
};

const store = ({ deadLetters }: Stores, letters: readonly ReturnType<typeof letterOf>[]) =>
  Promise.all(letters.map((letter) => deadLetters.store(letter)));

/** The page once the dead letters are counted: on a busy machine, it is shown before. */
const groupsFor = (visitor: Visitor) =>
  waitFor(
    async () => {
      const { text } = await visitor.request("/console/dead");
      return linksIn(text, "/console/dead/group").length > 0 && text;
    },
    { what: "the dead letters are counted" },
  );

async function actsIn({ auditActs }: Stores) {
  const acts = [];
  for (let act = await auditActs.next(); act !== undefined; act = await auditActs.next()) {
    if (act.line["act"] !== "console.login") acts.push(act.line);
    await auditActs.written(act);
  }
  return acts;
}

test("300 dead letters of one fault are one line, and tried again with three clicks", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "/dev/null" });
  const { runtime } = server;
  const right = Array.from({ length: 298 }, (_, n) => letterOf(`r${n}`));
  const wrong = ["w1", "w2"].map((code) => letterOf(code, { birthDate: "1.2.1980" }));
  await store(runtime, [...right, ...wrong, letterOf("other", {}, { ...FAULT, field: "city" })]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);

  const groups = await groupsFor(operator);
  expect(groups).toContain("301 dead letters in 2 groups, one for each fault");
  const [redrive = ""] = linksIn(groups, "/console/dead/confirm?act=redrive");
  // Stored after the page was made: it is not part of what the person has seen.
  await store(runtime, [{ ...letterOf("later"), at: Date.now() + 60_000 }]);
  const confirm = (await operator.request(redrive)).text;
  expect(confirm).toContain("Try 300 dead letters again");
  expect(confirm).not.toContain("Correct them first");
  expect(confirm).toMatch(/>298<\/th>\s*<td data-label="Result">would be sent/);
  expect(confirm).toMatch(/>2<\/th>\s*<td data-label="Result">would fail again/);
  const done = await operator.submit(redrive, "/console/dead?act=redrive");
  expect(done.text).toContain(
    "300 dead letters accepted again: each disappears here once its record passes.",
  );
  expect(await runtime.inbox.queue.count()).toBe(300);
  const acts = await actsIn(runtime);
  expect(acts).toHaveLength(300);
  expect(acts[0]).toMatchObject({ act: "dead.redrive", by: "operator via console at 127.0.0.1" });
});

test("where most would fail again, trying again is not the main button; dropping never stands first", async () => {
  await using server = await serveConsole();
  await store(server.runtime, [letterOf("w1", { birthDate: "1.2.1980" })]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const groups = await groupsFor(operator);
  const [again = "", ...drops] = linksIn(groups, "/console/dead/confirm");
  expect(again).toContain("act=redrive");
  const confirm = (await operator.request(again)).text;
  expect(confirm).toMatch(/1 of 1 would fail again/);
  expect(confirm).toMatch(/class="button main"[^>]*>Correct them first[^]*<button>Try 1/);
  const drop = (await operator.request(drops[0] ?? "")).text;
  expect(drop).toMatch(/Keep them<\/a\s*>[^]*<button class="drop">Drop 1 dead letter/);
});

test("what is dropped is what the page has shown: nothing that came later, and no newer event", async () => {
  await using server = await serveConsole();
  const { runtime } = server;
  const { deadLetters } = runtime;
  const minuteAgo = (code: string) => ({ ...letterOf(code), at: Date.now() - 60_000 });
  await store(runtime, [minuteAgo("seen"), minuteAgo("replaced")]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const groups = await groupsFor(operator);
  const [drop = ""] = linksIn(groups, "/console/dead/confirm?act=drop");
  const confirm = await operator.request(drop);
  expect(confirm.text).toContain("Drop 2 dead letters");
  expect(confirm.text).toContain("<strong>Fault: birthDate: must be a date</strong>");
  await store(runtime, [letterOf("replaced"), letterOf("later")]);
  const done = await operator.submit(drop, "/console/dead?act=drop");
  expect(done.text).toContain("1 dead letter dropped.");
  expect(await deadLetters.find("c:seen")).toBeUndefined();
  expect(await deadLetters.find("c:replaced")).toMatchObject({ times: 2 });
  expect(await deadLetters.find("c:later")).toBeDefined();

  // The page of one letter.
  await store(runtime, [minuteAgo("one")]);
  const page = (await operator.request("/console/dead/letter?id=c%3Aone")).text;
  const [dropOne = ""] = linksIn(page, "/console/dead/confirm?act=drop");
  const form = proofIn((await operator.request(dropOne)).text);
  await store(runtime, [letterOf("one", {}, { ...FAULT, field: "email" })]);
  const late = await operator.post(dropOne.replace("/confirm", ""), { form });
  expect(late).toMatchObject({ status: 400 });
  expect(late.text).toContain("newer events have replaced them; look again");
  expect(await deadLetters.find("c:one")).toMatchObject({ problems: [{ field: "email" }] });
});

test("the event of a dead letter is shown to an operator who asks, and that is recorded", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "/dev/null" });
  const { runtime } = server;
  await store(runtime, [letterOf("4711", { lastName: "Xq7Leak" })]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const groups = await groupsFor(operator);
  const [group = ""] = linksIn(groups, "/console/dead/group");
  const list = (await operator.request(group)).text;
  const [address = ""] = linksIn(list, "/console/dead/letter");
  const letter = (await operator.request(address)).text;
  expect(letter).toContain("contact/4711");
  expect(letter).toContain("would be sent");
  for (const page of [groups, list, letter]) expect(page).not.toContain("Xq7Leak");
  expect(await actsIn(runtime)).toEqual([]);
  const shown = await operator.submit(address, "/console/dead/event");
  expect(shown.text).toContain("Xq7Leak");
  expect(await actsIn(runtime)).toMatchObject([
    {
      act: "dead.show",
      crmCode: "4711",
      letter: "c:4711",
      by: "operator via console at 127.0.0.1",
    },
  ]);

  const dropped = await operator.submit(
    linksIn(letter, "/console/dead/confirm?act=drop")[0] ?? "",
    "/console/dead?act=drop",
  );
  expect(dropped.text).toContain("1 dead letter dropped.");
  expect(await runtime.deadLetters.count()).toBe(0);
  expect(await operator.request(address)).toMatchObject({ status: 400 });
});

test("a viewer sees faults, and is refused events and acts", async () => {
  await using server = await serveConsole();
  await store(server.runtime, [letterOf("4711")]);
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const text = await groupsFor(viewer);
  expect(text).toContain("birthDate: must be a date");
  expect(linksIn(text, "/console/dead/confirm")).toEqual([]);
  const form = { form: proofIn(text) };
  for (const act of ["redrive", "drop"]) {
    const path = `?act=${act}&id=c%3A4711&at=${Date.now()}`;
    expect(await viewer.post(`/console/dead${path}`, form)).toMatchObject({ status: 403 });
    expect(await viewer.request(`/console/dead/confirm${path}`)).toMatchObject({ status: 403 });
  }
  expect(await viewer.post("/console/dead/event?id=c%3A4711", form)).toMatchObject({ status: 403 });
  expect(await server.runtime.deadLetters.count()).toBe(1);
});

test("what events and rules say is text", async () => {
  await using server = await serveConsole();
  const trap = `<script>"onload='x'\u202e`;
  const fault = { field: `f${trap}`, rule: `r${trap}`, kind: `k${trap}` };
  const letter = letterOf(`c${trap}`, { firstName: trap }, fault);
  await store(server.runtime, [
    { ...letter, source: `s${trap}` },
    { ...letterOf("x"), id: "c:x", event: `<script>${trap}\nno JSON` },
  ]);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const groups = await groupsFor(operator);
  const pages = [groups];
  for (const group of linksIn(groups, "/console/dead/group")) {
    const list = (await operator.request(group)).text;
    const [address = ""] = linksIn(list, "/console/dead/letter");
    const [confirm = ""] = linksIn(groups, "/console/dead/confirm?act=redrive");
    pages.push(
      list,
      (await operator.request(address)).text,
      (await operator.request(confirm)).text,
    );
    pages.push((await operator.submit(address, "/console/dead/event")).text);
  }
  expect(pages).toHaveLength(9);
  for (const page of pages) {
    expect(page).toMatch(/<h1>/);
    expect(page).not.toMatch(/<script>|"onload|\u202e/);
  }
});

test("a letter that somebody has damaged has its page, can be dropped there, and hides no fate", async () => {
  await using server = await serveConsole({ STATE_KEY: randomBytes(32).toString("base64") });
  const { deadLetters, keys, redis } = server.runtime;
  await store(server.runtime, [letterOf("4711"), letterOf("other")]);
  const [letter, other] = await redis.hmget(keys.deadLetters, "c:4711", "c:other");
  const { event } = JSON.parse(other ?? "") as { event: string };
  const damaged = { ...(JSON.parse(letter ?? "") as object), event };
  await redis.hset(keys.deadLetters, "c:4711", JSON.stringify(damaged));
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const record = await operator.request("/console/records?name=4711");
  expect(record).toMatchObject({ status: 200 });
  expect(record.text).toContain("birthDate must be a date");
  const page = "/console/dead/letter?id=c%3A4711";
  expect((await operator.submit(page, "/console/dead/event")).text).toContain(
    "This event cannot be opened: somebody has changed it in Redis.",
  );
  const { text } = await operator.request(page);
  const [drop = ""] = linksIn(text, "/console/dead/confirm?act=drop");
  const done = await operator.submit(drop, "/console/dead?act=drop");
  expect(done.text).toContain("1 dead letter dropped.");
  expect(await deadLetters.count()).toBe(1);
});
