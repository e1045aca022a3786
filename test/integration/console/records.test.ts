/** The tab Records over real HTTP: the answer first, and the way to where a person decides. */
import { expect, test } from "vitest";
import { createDeadLetter } from "../../../src/sync/dead-letter.ts";
import { NO_ORDERS } from "../../../src/sync/ledger-row.ts";
import { linksIn, serveConsole, VIEWER } from "../../support/console.ts";
import { waitingState } from "../../support/waiting-state.ts";
import { hold } from "../../support/hold.ts";
import { personEvent } from "../../support/person-event.ts";

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

test("before a search, the page shows what waits longest; a name of a person is not kept", async () => {
  await using server = await serveConsole();
  const { settledLately, staged } = server.runtime;
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  expect((await viewer.request("/console/records")).text).toContain("No change waits.");
  for (const code of ["w1", "w2"]) await staged.stage(waitingState(code, "live"));
  settledLately.note({ crmCode: "s/1", orders: NO_ORDERS });
  const { text } = await viewer.request("/console/records");
  expect(text).toMatch(/What waits longest[^]*>w1<[^]*>w2<[^]*Latest changes[^]*name=s%2F1/);

  for (const name of ["Ada Muster", "Müller", "ada@example.org"]) {
    const path = `/console/records?${new URLSearchParams({ name }).toString()}`;
    expect((await viewer.request(path)).text, name).toContain("keeps no names or addresses");
  }
  expect((await viewer.request("/console/records?name=4711")).text).not.toContain("keeps no names");
});
