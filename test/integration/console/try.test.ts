/** The page that tries the mapping: what it shows, to whom, and that it keeps nothing. */
import { expect, test } from "vitest";
import { OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { personEvent } from "../../support/person-event.ts";

const PATH = "/console/records/try";

test("an operator tries a pasted record and a dead letter's event; nothing of it is kept", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "/dev/null" });
  const { auditActs, config, deadLetters, redis } = server.runtime;
  const event = JSON.stringify(personEvent("r1"));
  const letter = { reason: "invalid" as const, problems: [], event, at: Date.now() };
  await deadLetters.store(createDeadLetter({ crmCode: "r1" }, letter));
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request(PATH)).text;
  const form = proofIn(page);
  const keys = async () => (await redis.keys(`${config.QUEUE_PREFIX}*`)).sort();
  const before = await keys();
  const record = {
    id: 1,
    type: "Person",
    crmCode: "p1",
    firstName: "<b>Zoë",
    lastName: "Muster",
    email: "a+b@x.com",
  };
  const tried = await operator.post(PATH, { form, text: JSON.stringify(record) });
  expect(tried.text).toMatch(/<strong>record\/1<\/strong> passes \(crmCode p1\)/);
  expect(tried.text).toContain("&quot;&lt;b&gt;Zoë&quot;");
  expect(tried.text).not.toContain("<b>Zoë");
  expect(tried.text).toContain(
    "email: the value breaks the service&#39;s rule for the field: a+b@x.com",
  );
  expect(await keys()).toEqual(before);
  const [, field = ""] = /name="pick"\s+value="(id=[^"]+)"/.exec(page) ?? [];
  const picked = await operator.post(PATH, { form, pick: field.replaceAll("&amp;", "&") });
  expect(picked.text).toContain("Compare with the service");
  const acts = [];
  for (let act = await auditActs.next(); act !== undefined; act = await auditActs.next()) {
    acts.push(act.line["act"]);
    await auditActs.written(act);
  }
  expect(acts).toEqual(["console.login", "dead.show"]);
  const wrong = await operator.post(PATH, { form, text: "{ not JSON" });
  expect(wrong.status).toBe(400);
  expect(wrong.text).toContain("is not JSON at line 1");
  expect(wrong.text, "it stays in the form").toContain("{ not JSON</textarea");
});

test("the event of a change that waits can be tried, and who reads it is recorded", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "/dev/null" });
  const { auditActs, staged } = server.runtime;
  await staged.stage({
    crmCode: "w1",
    eventKey: "w1",
    order: "1",
    payload: "{}",
    fingerprint: "w1",
    variant: "Person",
    status: "mapped",
    lane: "bulk",
    time: 1,
    event: JSON.stringify(personEvent("w1", { lastName: "Waiting" })),
  });
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const { text } = await operator.request(PATH);
  const tried = await operator.post(PATH, { form: proofIn(text), pick: "code=w1" });
  expect(text).toContain('value="code=w1"');
  expect(tried.text).toContain("&quot;Waiting&quot;");
  const login = await auditActs.next();
  if (login !== undefined) await auditActs.written(login);
  expect((await auditActs.next())?.line).toMatchObject({ act: "event.show", crmCode: "w1" });
  const gone = await operator.post(PATH, { form: proofIn(text), pick: "code=none" });
  expect(gone.text).toMatch(/this event is not kept any more/i);
});

test("a viewer, who may see no values, tries nothing", async () => {
  await using server = await serveConsole();
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const { text } = await viewer.request("/console/records");
  expect(text).not.toContain(PATH);
  expect(await viewer.request(PATH)).toMatchObject({ status: 403 });
  const answer = await viewer.post(PATH, { form: proofIn(text), text: "{}" });
  expect(answer.status).toBe(403);
});
