/** `crmsync mapping test`: runs the cases that lie beside a mapping. */
import { relative } from "node:path";
import { styleText } from "node:util";
import type { Command } from "commander";
import { loadMapping } from "../mapping/load-mapping.ts";
import { printable } from "../ops/printable.ts";
import { readCases } from "../preview/mapping-cases.ts";
import { print, printJson } from "./output.ts";
import { runCase, type Difference } from "../preview/run-case.ts";

export function addTestCommand(mapping: Command): void {
  mapping
    .command("test")
    .description("run the cases of a mapping: what records and webhook bodies must become")
    .argument("<file>", "the mapping, with its cases in NAME.test.yaml beside it; or these cases")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
docs/mapping.md describes the cases; mapping init writes two. Nothing is sent and no Redis is needed.
Exit code: 1 if a case fails, 78 if the mapping or its cases have a mistake or are missing.`,
    )
    .action(test);
}

async function test(name: string, options: { json?: true }): Promise<void> {
  const given = readCases(name);
  const mapping = await loadMapping(given.mapping);
  const cases: { name: string; line: number; ok: boolean; differences: Difference[] }[] = [];
  try {
    for (const one of given.cases) {
      const differences = await runCase(one, mapping, given);
      cases.push({ name: one.name, line: one.line, ok: differences.length === 0, differences });
    }
  } finally {
    await mapping.close();
  }
  const failed = cases.filter(({ ok }) => !ok).length;
  const file = relative(".", given.file);
  if (options.json === true) {
    const result = { ok: failed === 0, mapping: given.mapping, file: given.file, cases };
    printJson(result);
  } else {
    for (const { name: title, line, ok, differences } of cases) {
      const place = ok ? "" : `  ${file}:${line}`;
      const shown = `${ok ? "✓" : "✗"} ${printable(title)}${place}`;
      print(styleText(ok ? "green" : "red", shown));
      for (const one of differences) print(differenceText(one));
    }
    print(`${cases.length - failed} passed, ${failed} failed`);
  }
  if (failed > 0) process.exitCode = 1;
}

function differenceText({ path, expected, actual }: Difference): string {
  const shown = (value: unknown) => printable(JSON.stringify(value));
  const is = actual === undefined ? "there is nothing" : `it is ${shown(actual)}`;
  return `    ${path.padEnd(28)} ${expected === undefined ? is : `expected ${shown(expected)}, but ${is}`}`;
}
