/** `crmsync why`: tells what became of one record. */
import { Command } from "commander";
import { storyOf, type Story } from "../people/history/story.ts";
import { readWhens } from "../intake/mapping/read-mapping-file.ts";
import { brokenAt } from "../base/command.ts";
import { printable } from "../base/printable.ts";
import { printEither, terminalColumns } from "./output.ts";
import { recordName } from "./arguments.ts";
import { withStores } from "./operator.ts";

export function whyCommand(): Command {
  return new Command("why")
    .description("tell what became of one record, and why it is not on the service yet")
    .argument("<name>", "its crmCode, or its record in the CRM, such as contact/7", recordName)
    .option("--json", "print the JSON of GET /records")
    .addHelpText(
      "after",
      `
The first line answers, the next says what to do; then the last steps of its history, newest first.
Steps are kept HISTORY_DAYS (30), at most 20 of each record, and name fields without their values.
Times are in UTC. Costs no request.`,
    )
    .action(why);
}

async function why(name: string, { json }: { json?: true }): Promise<void> {
  await withStores(async (stores) => {
    const story = await storyOf(stores, name, readWhens(stores.config.MAPPING));
    const columns = terminalColumns();
    const lines = linesOf(story).map(printable);
    printEither(
      json,
      story,
      lines.flatMap((one) => brokenAt(one, columns, indentOf(one))).join("\n"),
    );
  });
}

/** What a step says stays beside its time. */
const indentOf = (line: string): number => /^ {2}\d{4}-\S+ {2}/.exec(line)?.[0].length ?? 2;

function linesOf(story: Story): string[] {
  const { answer, crmCode, historySince, name, others, remedy, runbook } = story;
  const { similar, steps, subject } = story;
  const about = [
    ...(crmCode === null || crmCode === name ? [] : [`crmCode ${crmCode}`]),
    ...(subject === null || subject === name ? [] : [`record ${subject}`]),
  ];
  const remedies = [remedy, runbook && `(${runbook})`].filter(Boolean).join(" ");
  return [
    `${name}${about.length === 0 ? "" : ` (${about.join(", ")})`}: ${answer}`,
    ...(remedies === "" ? [] : [remedies]),
    ...others.map((other) => `it also led to the crmCode ${other.crmCode}: ${other.answer}`),
    ...similar.map((one) => `  ${nameOf(one)}: ${one.answer}`),
    ...steps.map(({ at, says }) => `  ${at.slice(0, 19)}Z  ${says}`),
    historySince === null
      ? "  no history is kept (HISTORY_DAYS is 0, or no process has run yet)"
      : `  history is complete since ${historySince.slice(0, 19)}Z, the last 20 steps`,
  ];
}

const nameOf = ({ crmCode, name }: Story["similar"][number]): string =>
  crmCode === null || crmCode === name ? name : `${name} (crmCode ${crmCode})`;
