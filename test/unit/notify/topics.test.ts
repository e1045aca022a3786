import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { endOf, topicsIn } from "../../../src/people/notify/topics.ts";
import { finding } from "../../../src/operate/status/finding.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";

const ROOT = join(import.meta.dirname, "../../..");
const DAY_MS = 86_400_000;

const readings = (some: Partial<Readings> = {}) =>
  ({ now: 10 * DAY_MS, deadLetters: 49, sources: {}, ...some }) as Readings;

const keysOf = (...findings: ReturnType<typeof finding>[]) =>
  topicsIn(findings, readings(), 50).map(({ key }) => key);

it("each section that is notified is one of the runbook", () => {
  const table = readFileSync(join(ROOT, "src/people/notify/topics.ts"), "utf8");
  const sections = [...table.matchAll(/^ {2}"?([a-z][a-z-]+)"?: \{/gm)].map(([, name]) => name);
  expect(sections.length).toBeGreaterThan(15);
  const runbook = readFileSync(join(ROOT, "docs/runbook.md"), "utf8");
  const headings = new Set(
    [...runbook.matchAll(/^### (.+)$/gm)].map(([, heading = ""]) =>
      heading.toLowerCase().replaceAll(" ", "-"),
    ),
  );
  expect(sections.filter((name = "") => !headings.has(name))).toEqual([]);
});

it("every stop is notified, also one that the table does not have; of the others those that it has", () => {
  expect(
    keysOf(
      finding("stopped", "a-new-stop", "says"),
      finding("warning", "crmsyncquotaexhausted", "says"),
      finding("warning", "one-record-is-missing", "says"),
      finding("warning", "the-ledger-is-cold-or-being-warmed", "says"),
      finding("warning", "crmsyncdeadletters", "says"),
      finding("warning", "crmsyncsourcesilent", "says", "/crm/a"),
      finding("warning", "crmsyncsourcesilent", "says", "/crm/b"),
    ),
  ).toEqual(["a-new-stop", "crmsyncsourcesilent /crm/a", "crmsyncsourcesilent /crm/b"]);
});

it("the finding that no process runs is not notified: the process that looks is running", () => {
  expect(keysOf(finding("stopped", "crmsyncdown", "No process of crmsync is running."))).toEqual(
    [],
  );
});

it("dead letters are notified from a number on", () => {
  const dead = [finding("warning", "crmsyncdeadletters", "says")];
  expect(topicsIn(dead, readings({ deadLetters: 50 }), 50)).toHaveLength(1);
});

it("relations that differ from the CRM are notified after a day", () => {
  const topics = topicsIn([finding("warning", "crmsyncdrift", "says")], readings(), 50);
  expect(topics).toMatchObject([{ key: "crmsyncdrift", lastsHours: 24 }]);
  expect(endOf("crmsyncdrift", readings())).toContain("No relation differs");
});

it("a silent source has ended when it sends again, and not when it is forgotten", () => {
  const key = "crmsyncsourcesilent /crm/a b";
  const sends = readings({ sources: { "/crm/a b": 10 * DAY_MS - 5 }, sourcePauses: {} });
  expect(endOf(key, sends)).toBe("/crm/a b sends events again.");
  // It was heard for less than an hour, over a week ago.
  const forgotten = readings({ sources: { "/crm/a b": 2 * DAY_MS }, sourcePauses: {} });
  expect(endOf(key, forgotten)).toBe("/crm/a b is not watched any more.");
});

it("an end says no more than is known", () => {
  const outage = { since: 0, reason: "server_error", nextTryAt: 1000 };
  expect(endOf("crmsyncserviceunavailable", readings())).toContain("usable replies again");
  expect(endOf("crmsyncserviceunavailable", readings({ outage }))).toMatch(/^No change is tried/);
  const listed = (state: "done" | "cold") =>
    endOf(
      "the-ledger-is-cold-or-being-warmed",
      readings({ warmUp: { ...IDLE.warmUp, state, failure: "server_error" } }),
    );
  expect(listed("done")).toContain("ledger is warm");
  expect(listed("cold")).toContain("cold ledger");
  expect(endOf("crmsyncrecordsnotfetched hubspot", readings())).toContain("given up");
});
