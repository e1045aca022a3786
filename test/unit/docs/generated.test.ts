/** node deploy/generate.ts writes these pages; fields and metrics have tests of their own. */
import { readFileSync } from "node:fs";
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
