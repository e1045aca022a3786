/** `crmsync records`: lists every relation that is known, with its state. */
import { Command, InvalidArgumentError } from "commander";
import { counted } from "../base/counted.ts";
import { giveMemoryBack } from "../base/give-memory-back.ts";
import {
  emptyCounts,
  countInto,
  listRelations,
  type RelationCounts,
  type RelationFilter,
} from "../records/list-relations.ts";
import { csvOf, CSV_HEAD, documentOf, lineOf } from "../records/print-relation.ts";
import { RELATION_STATES, type RelationStateName } from "../records/state-of.ts";
import { Choice, oneOf, recordName, WrongUsage } from "./arguments.ts";
import { withStores } from "./operator.ts";
import { printEither } from "./output.ts";

interface RecordsOptions extends Omit<RelationFilter, "states"> {
  readonly state?: readonly RelationStateName[];
  readonly count?: true;
  readonly csv?: true;
  readonly json?: true;
}

/** Garbage is collected so often, ms: a million relations shall not need more memory than a thousand. */
const COLLECT_EVERY_MS = 500;

export function recordsCommand(): Command {
  return new Command("records")
    .description(
      "list every relation that is known: its state, since when, why, and what comes next",
    )
    .option(
      "--state <state>",
      `only this state (can be repeated): ${STATE_NAMES.join(", ")}`,
      state,
    )
    .option("--source <source>", "only records whose newest event came from this source")
    .addOption(
      new Choice("--type <type>", "only persons, or only companies", ["Person", "Company"]),
    )
    .option("--owner <owner>", "only records of this owner, as the mapping names it", recordName)
    .option("--since <time>", "only what is so, or was confirmed, since this time (ISO 8601)", time)
    .option(
      "--search <text>",
      "only records with this text in their crmCode or their name in the CRM",
    )
    .option("--count", "print only how many are in each state")
    .option("--csv", "print CSV for a table program")
    .option("--json", "print one line of JSON per relation, or of the numbers")
    .addHelpText(
      "after",
      `
A relation that is in two states, such as rejected with an older change that is held, is listed once
and counts in both. The source, the owner and the record of the CRM are known where an event of the
last HISTORY_DAYS, a change that waits or a dead letter tells them. Costs no request.`,
    )
    .action(records);
}

/** As words of a command line: on-the-service. */
const STATE_NAMES = RELATION_STATES.map((name) => name.replaceAll(" ", "-"));

const state = (text: string, before: readonly RelationStateName[] = []) => [
  ...before,
  oneOf(STATE_NAMES)(text.replaceAll(" ", "-")).replaceAll("-", " ") as RelationStateName,
];

function time(text: string): number {
  const at = Date.parse(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && Number.isFinite(at)) return at;
  throw new InvalidArgumentError("It must be a time such as 2026-11-12 or 2026-11-12T02:00:00Z.");
}

async function records({ count, csv, json, state, ...filter }: RecordsOptions): Promise<void> {
  if (csv && (json || count)) throw new WrongUsage("give one of --csv, --json and --count");
  await withStores(async (stores) => {
    const memory = giveMemoryBack(COLLECT_EVERY_MS);
    const counts = emptyCounts();
    if (csv) process.stdout.write(CSV_HEAD);
    for await (const page of listRelations(stores, { ...filter, states: state })) {
      countInto(counts, page);
      if (count) continue;
      const lines = page.map((one) =>
        csv ? csvOf(one) : `${json ? JSON.stringify(documentOf(one)) : lineOf(one)}\n`,
      );
      await written(lines.join(""));
    }
    if (count || !(json || csv)) printEither(json, counts, sumOf(counts));
    await memory.close();
  });
}

/** Waits for a reader that is slower: what it has not read yet would be kept in memory. */
const written = (text: string): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });

function sumOf({ relations, states }: RelationCounts): string {
  const parts = Object.entries(states).filter(([, number]) => number > 0);
  const listed = parts.map(([name, number]) => `${number} ${name}`).join(", ");
  return `${counted(relations, "relation")}${listed === "" ? "" : `: ${listed}`}`;
}
