/** node deploy/generate.ts writes these pages; fields and metrics have tests of their own. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { commandsReference } from "../../../deploy/commands-reference.ts";
import { figures, withComparison } from "../../../deploy/figures.ts";
import { logEventsReference } from "../../../deploy/log-events-reference.ts";

const ROOT = join(import.meta.dirname, "../../..");
const read = (page: string) => readFileSync(join(ROOT, page), "utf8");

it.for([
  ["docs/log-events.md", logEventsReference],
  ["docs/commands.md", commandsReference],
  ["docs/figures.md", figures],
  ["README.md", () => withComparison(read("README.md"))],
] as const)("%s is up to date (node deploy/generate.ts)", async ([page, write]) => {
  expect(read(page)).toBe(await write());
});

/** How fast and how large it is: true only of the build that was measured. */
const FIGURE = /\d (?:events|commands|changes|permits) (?:a|per) second|\d (?:kB|MB)\b/g;

it.for(["CHANGELOG.md", ...globSync("docs/{,crm/}*.md", { cwd: ROOT })])(
  "%s has no figure of speed or size, which docs/figures.md alone has",
  (page) => {
    const found = [...read(page).matchAll(FIGURE)].map(([text]) => text);
    expect(page === "docs/figures.md" ? [] : found).toEqual([]);
  },
);

it("the figures are found", () => {
  const text = "it stages 4000 events a second, in 96 MB";
  expect([...text.matchAll(FIGURE)]).toHaveLength(2);
});
