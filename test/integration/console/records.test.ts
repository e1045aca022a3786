/** The tab Records over real HTTP: the answer first, and the way to where a person decides. */
import { expect, test } from "vitest";
import { createDeadLetter } from "../../../src/sync/dead-letter.ts";
import { linksIn, serveConsole, VIEWER } from "../../support/console.ts";
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
  expect(rejected).toContain("What to do:");
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
