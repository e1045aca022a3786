/** `crmsync dead`: lists, shows, redrives and drops dead letters. */
import { Command } from "commander";
import type { StoredDeadLetter } from "../state/dead-letters.ts";
import type { Stores } from "../status/stores.ts";
import { DEAD_REASONS } from "../sync/dead-letter.ts";
import { EVENT_FIELDS, RECORD_FIELDS } from "../sync/problem-fields.ts";
import { printable, printableLines } from "../ops/printable.ts";
import { Choice } from "./choice.ts";
import { choose, findAll, type Filter, find } from "./dead/choose.ts";
import { countOf, eventOf, jsonOf, linesOf } from "./dead/print.ts";
import { recordAct } from "./operator.ts";
import { withStores } from "./with-stores.ts";

interface ListOptions extends Filter {
  readonly json?: true;
}

interface ActOptions extends ListOptions {
  readonly all?: true;
  readonly apply?: true;
}

/** As the metrics and the log name them. */
const FIELDS = [...new Set([...RECORD_FIELDS, ...EVENT_FIELDS, "other"])];

const NAMES = "its id as list shows it, its crmCode, or its record, such as contact/7";

export function deadCommand(): Command {
  const dead = new Command("dead")
    .description("list, show, redrive and drop dead letters")
    .addHelpText(
      "after",
      `
A dead letter is deleted DEAD_LETTER_DAYS (30) after it was stored last; list says when that is.`,
    );
  const filtered = (name: string, description: string) =>
    dead
      .command(name)
      .description(description)
      .addOption(new Choice("--reason <reason>", "only dead letters of this reason", DEAD_REASONS))
      .addOption(
        new Choice(
          "--field <field>",
          "only dead letters that name this field of the service or the event",
          FIELDS,
        ),
      )
      .option("--source <source>", "only dead letters of events from this source")
      .option("--json", "print one line of JSON per dead letter");
  filtered("list", "list them, oldest first").action(list);
  dead
    .command("show")
    .description("show one dead letter with its event (which contains personal data)")
    .argument("<name>", NAMES)
    .option("--json", "print as JSON")
    .action(show);
  const acting = (what: "redrive" | "drop", description: string) =>
    filtered(what, description)
      .argument("[names...]", `${NAMES}; without, the filters or --all select them`)
      .option("--all", "all dead letters")
      .option("--apply", "do it; without it, only print what would be done")
      .action((names: string[], options: ActOptions, command: Command) => {
        const { all, field, reason, source } = options;
        if (names.length > 0 || all || reason || field || source) return act(what, names, options);
        command.error(
          "error: select dead letters: by their names, --reason, --field, --source, or --all",
        );
      });
  acting(
    "redrive",
    "accept the events again, in their original order; a dead letter stays until its record passes",
  );
  acting("drop", "delete them for good");
  return dead;
}

async function list(options: ListOptions): Promise<void> {
  await withStores(async ({ deadLetters: dead, deadLetterExpiry }) => {
    const letters = await choose(dead, options);
    const left = await deadLetterExpiry.left();
    for (const letter of letters) {
      const leftMs = left.get(letter.id);
      process.stdout.write(
        options.json
          ? `${printable(JSON.stringify(jsonOf(letter, leftMs)))}\n`
          : linesOf(letter, leftMs),
      );
    }
    if (!options.json) process.stdout.write(`${countOf(letters.length)}\n`);
  });
}

async function show(name: string, options: { json?: true }): Promise<void> {
  await withStores(async ({ deadLetters: dead, deadLetterExpiry }) => {
    const letter = await find(dead, name);
    const leftMs = (await deadLetterExpiry.left()).get(letter.id);
    const event = eventOf(letter);
    if (options.json) {
      const line = JSON.stringify({ ...jsonOf(letter, leftMs), event });
      process.stdout.write(`${printable(line)}\n`);
      return;
    }
    process.stdout.write(linesOf(letter, leftMs));
    process.stdout.write(
      typeof event === "string"
        ? `${printable(event)}\n`
        : `${printableLines(JSON.stringify(event, undefined, 2))}\n`,
    );
  });
}

async function act(
  what: "redrive" | "drop",
  names: readonly string[],
  options: ActOptions,
): Promise<void> {
  await withStores(async (stores) => {
    await stores.stateVersion.require();
    const letters =
      names.length > 0
        ? await findAll(stores.deadLetters, names)
        : await choose(stores.deadLetters, options);
    const done = { redriven: 0, dropped: 0, left: 0 };
    for (const letter of letters) {
      if (options.apply) await recordAct(stores, `dead.${what}`, aboutOf(letter));
      if (options.apply && what === "drop")
        done.dropped += (await stores.deadLetters.drop(letter.id)) ? 1 : 0;
      else if (options.apply) done[(await redrive(stores, letter)) ? "redriven" : "left"] += 1;
      else if (!options.json) process.stdout.write(linesOf(letter));
    }
    printResult(what, letters.length, done, options);
  });
}

function printResult(
  what: string,
  count: number,
  done: Readonly<Record<"redriven" | "dropped" | "left", number>>,
  options: ActOptions,
): void {
  if (options.json) {
    process.stdout.write(
      `${JSON.stringify({ chosen: count, applied: options.apply ?? false, ...done })}\n`,
    );
  } else if (!options.apply) {
    process.stdout.write(`would ${what} ${countOf(count)}; give --apply to do it\n`);
  } else {
    const left =
      done.left > 0 ? `, ${done.left} left: they contain no event that could be sent` : "";
    process.stdout.write(`${done.redriven} redriven, ${done.dropped} dropped${left}\n`);
  }
}

/**
 * Asks intake to accept the event again, in its old place among the events of its record. The dead
 * letter stays until then; if the event fails again, the same dead letter is counted once more.
 */
async function redrive({ inbox }: Stores, letter: StoredDeadLetter): Promise<boolean> {
  if (identityOf(letter) === undefined) return false;
  await inbox.redrive(letter.id);
  return true;
}

/** What the audit trail says of it. */
const aboutOf = (letter: StoredDeadLetter) => ({
  crmCode: letter.crmCode,
  event: identityOf(letter),
  details: { letter: letter.id },
});

/** Undefined for an event that could not be sent. */
function identityOf(letter: StoredDeadLetter): { id: string; source: string } | undefined {
  const event = eventOf(letter);
  if (typeof event !== "object" || event === null) return undefined;
  const { source, id } = event as { source?: unknown; id?: unknown };
  return typeof source === "string" && typeof id === "string" ? { id, source } : undefined;
}
