import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CHORES } from "../../../workers/chore-table.ts";

test("docs/architecture.md shows the table of chores: their names, times and roles", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/architecture.md"), "utf8");
  const [, section = ""] = page.split("\n## Chores\n");
  const shown = section
    .split("\n")
    .filter((line) => /^\| (?!chore|-)/.test(line))
    .flatMap((line) => {
      const [names = "", times = "", role] = line
        .split("|")
        .slice(1)
        .map((cell) => cell.trim());
      const every = times.split(", ");
      return names.split(", ").map((name, n) => ({ name, every: every[n] ?? times, role }));
    });
  const chores = CHORES.map(({ name, everyMs, role = "" }) => {
    return { name, every: `${everyMs / 1000} s`, role };
  });
  const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
  expect(shown.toSorted(byName)).toEqual(chores.toSorted(byName));
});
