import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readSections, remedyView } from "../../../src/console/remedies.ts";

const RUNBOOK = readFileSync(new URL("../../../docs/runbook.md", import.meta.url), "utf8");

test("every section of an alert says what to do", () => {
  const alerts = [...readSections(RUNBOOK)].filter(([name]) => name.startsWith("crmsync"));
  expect(alerts.length).toBeGreaterThan(30);
  expect(alerts.filter(([, { act }]) => act === undefined).map(([name]) => name)).toEqual([]);
});

test("every section says where to look and what to do, to its end", () => {
  const cut = [...readSections(RUNBOOK)].filter(([, { look, act }]) =>
    [look, act].some((text) => text === undefined || text.endsWith(":")),
  );
  expect(cut.map(([name]) => name)).toEqual([]);
});

test("paragraphs end where the next one begins; code and links become HTML, all else is escaped", () => {
  const sections = readSections(
    "## Alerts\n\n### Crmsync Two, (really)\n\n**Means.** One.\n**Look.** At\n`a < b`.\n**Do.** See [that](x.md) & go\non.\n\nMore.\n",
  );
  expect(sections.get("crmsync-two-really")).toEqual({
    look: "At `a < b`.",
    act: "See [that](x.md) & go on.",
  });
  const shown = String(remedyView("docs/runbook.md#crmsyncbulkpaused"));
  expect(shown).toContain(
    "<strong>Do.</strong> Ask that person; then <code>crmsync bulk resume</code>.",
  );
  const emphasised = String(remedyView("docs/runbook.md#crmsyncchangesrejected"));
  expect(emphasised).toContain("Dashboard, New dead letters by field.");
});
