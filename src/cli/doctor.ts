import { styleText } from "node:util";
import { Command } from "commander";
import { readConfig, type Config } from "../base/config.ts";
import { checkAll } from "../operate/doctor/check-all.ts";
import { printable, printableLines } from "../base/printable.ts";
import { operatorName } from "./operator.ts";
import { printJson } from "./output.ts";
import type { Check } from "../operate/doctor/check.ts";

const MARKS = { ok: "✓", warn: "!", fail: "✗" } as const;
const STYLES = { ok: "green", warn: "yellow", fail: "red" } as const;
const NAME_CELLS = 26;

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("check everything that sync depends on; each problem comes with its remedy")
    .option("--json", "print as JSON")
    .option("--accept-types", "the types of the CRMs' fields are right as they are now")
    .option("--refresh", "have a running process fetch the tenant's value lists now")
    .addHelpText(
      "after",
      `
Costs one request of the service at most (--refresh: another one, of that process), and a few of each CRM. If the service grants access again after a denial, all processes continue
at once. Exit code: 1 when a check has failed, else 0.`,
    )
    .action(examine);
}

async function examine(options: {
  acceptTypes?: true;
  json?: true;
  refresh?: true;
}): Promise<void> {
  const checks: Check[] = [];
  const refreshBy = options.refresh && operatorName;
  const config = readConfig();
  const all = [...checkAll(config, options.acceptTypes, refreshBy), checkMailIfSet(config)];
  for (const group of all) {
    const done = await group;
    checks.push(...done);
    if (!options.json) process.stdout.write(done.map(linesOf).join(""));
  }
  if (options.json) printJson(checks, 2);
  const code = checks.some(({ result }) => result === "fail") ? 1 : 0;
  // The process must end although a connection may hang. When this callback is called, all lines are written.
  // If a line could not be written, run.ts reports that error first.
  process.stdout.write("", () => setImmediate(() => process.exit(code)));
}

/** The library is loaded only where a server is set. */
const checkMailIfSet = async (config: Config): Promise<readonly Check[]> =>
  config.secrets.SMTP_URL === undefined
    ? []
    : (await import("../quality/mail.ts")).checkMail(config);

function linesOf({ name, result, says, remedy }: Check): string {
  const mark = styleText(STYLES[result], `${MARKS[result]} ${result.padEnd(4)}`, {
    stream: process.stdout,
  });
  const indent = " ".repeat(NAME_CELLS + 8);
  const indented = (text: string) => printableLines(text).replaceAll("\n", `\n${indent}`);
  const remedyLine = remedy === undefined ? "" : `${indent}→ ${indented(remedy)}\n`;
  return `${mark} ${printable(name).padEnd(NAME_CELLS)} ${indented(says)}\n${remedyLine}`;
}
