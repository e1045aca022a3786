import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { blocks, readSections, runbookView, TAB_OF } from "../../../src/people/console/remedies.ts";

const RUNBOOK = readFileSync(new URL("../../../docs/runbook.md", import.meta.url), "utf8");

test("every section of an alert says what to do", () => {
  const alerts = [...readSections(RUNBOOK)].filter(([name]) => name.startsWith("crmsync"));
  expect(alerts.length).toBeGreaterThan(30);
  const silent = alerts.filter(([, { text }]) => !/\*\*Do[.,]/.test(text));
  expect(silent.map(([name]) => name)).toEqual([]);
});

test("each section with a button is one of the runbook", () => {
  const sections = readSections(RUNBOOK);
  expect(Object.keys(TAB_OF).filter((name) => !sections.has(name))).toEqual([]);
});

test("every section is shown to its end, without signs of Markdown, and its links lead somewhere", () => {
  const sections = readSections(RUNBOOK);
  for (const [name, { text }] of sections) {
    const shown = blocks(text).map(String).join("");
    const lastWord = /([\w.]+)\W*$/.exec(text.replaceAll(/\]\([^)]*\)/g, "]"))?.[1] ?? "";
    expect(shown, name).toContain(lastWord);
    const prose = shown.replaceAll(/<(code|pre)[^>]*>[^]*?<\/\1>/g, "");
    expect(prose, name).not.toMatch(/\*\*|`|\]\(|<p>\s*(?:-|\d+\.) /);
    for (const [, to = ""] of shown.matchAll(/section=([^"]+)"/g)) {
      expect(sections.has(decodeURIComponent(to)), `${name}: ${to}`).toBe(true);
    }
  }
});

test("lists, code and links become HTML; all else is escaped, and links to documents are text", () => {
  const sections = readSections(
    "## Alerts\n\n### Crmsync Two, (really)\n\n**Means.** One.\n**Do.** See [that](x.md) & *go*\non:\n\n- `a < b`, [so](#crmsync-two-really)\n  it is\n- two\n\n1. one\n\n```sh\nx   # y\nz\n```\n\n## Next\n\nNo.\n",
  );
  const { title, text = "" } = sections.get("crmsync-two-really") ?? {};
  expect(title).toBe("Crmsync Two, (really)");
  expect(blocks(text).map(String).join("").replaceAll(/>\s+</g, "><")).toBe(
    [
      "<p><strong>Means.</strong> One.</p>",
      "<p><strong>Do.</strong> See that &amp; <em>go</em> on:</p>",
      '<ul><li><code>a &lt; b</code>, <a href="/console/runbook?section=crmsync-two-really">so</a> it is</li><li>two</li></ul>',
      "<ol><li>one</li></ol>",
      '<pre tabindex="0">x   # y<br />z</pre>',
    ].join(""),
  );
  expect(String(runbookView("docs/runbook.md#crmsyncbulkpaused", "x"))).toContain(
    "<strong>Do.</strong> Ask that person; then <code>crmsync bulk resume</code>.",
  );
  expect(String(runbookView("docs/runbook.md#nothing", "x"))).toContain("docs/runbook.md#nothing");
});
