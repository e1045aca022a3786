/** `crmsync dead`: lists, shows, redrives and drops dead letters. */
import { styleText } from "node:util";
import { Command } from "commander";
import { readConfig } from "../config.ts";
import type { DeadLetters, StoredDeadLetter } from "../state/dead-letters.ts";
import { openStores, type Stores } from "../status/stores.ts";
import { REMEDIES } from "../sync/dead-letter.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { UserError } from "../ops/user-error.ts";

interface Filter {
  readonly reason?: string;
  readonly field?: string;
  readonly source?: string;
  readonly json?: true;
}

interface ActOptions extends Filter {
  readonly all?: true;
  readonly apply?: true;
}

export function deadCommand(): Command {
  const dead = new Command("dead").description("list, show, redrive and drop dead letters");
  const filtered = (name: string, description: string) =>
    dead
      .command(name)
      .description(description)
      .option("--reason <reason>", `one of ${Object.keys(REMEDIES).join(", ")}`)
      .option("--field <field>", "only dead letters that name this field")
      .option("--source <source>", "only dead letters of events from this source")
      .option("--json", "print one line of JSON per dead letter");
  filtered("list", "list them, oldest first").action(list);
  dead
    .command("show")
    .description("show one dead letter with its event (which contains personal data)")
    .argument("<id>", "the id that list shows, or the crmCode")
    .option("--json", "print as JSON")
    .action(show);
  filtered(
    "redrive",
    "accept the events again, each in its old place in time; a dead letter stays until its record passes",
  )
    .argument("[ids...]", "ids of dead letters; without, the filters or --all select them")
    .option("--all", "all dead letters")
    .option("--apply", "do it; without it, only print what would be done")
    .action((ids: string[], options: ActOptions) => act("redrive", ids, options));
  filtered("drop", "delete them for good")
    .argument("[ids...]", "ids of dead letters; without, the filters or --all select them")
    .option("--all", "all dead letters")
    .option("--apply", "do it; without it, only print what would be done")
    .action((ids: string[], options: ActOptions) => act("drop", ids, options));
  return dead;
}

async function list(filter: Filter): Promise<void> {
  await withStores(async ({ deadLetters: dead }) => {
    const letters = await choose(dead, filter);
    for (const letter of letters)
      process.stdout.write(filter.json ? jsonLine(letter) : lines(letter));
    if (!filter.json) process.stdout.write(`${counted(letters.length)}\n`);
  });
}

async function show(id: string, options: { json?: true }): Promise<void> {
  await withStores(async ({ deadLetters: dead }) => {
    const letter = await find(dead, id);
    if (options.json) {
      process.stdout.write(`${JSON.stringify({ ...jsonOf(letter), event: eventOf(letter) })}\n`);
      return;
    }
    const event = eventOf(letter);
    process.stdout.write(lines(letter));
    process.stdout.write(
      `${typeof event === "string" ? event : JSON.stringify(event, undefined, 2)}\n`,
    );
  });
}

async function act(
  what: "redrive" | "drop",
  ids: readonly string[],
  options: ActOptions,
): Promise<void> {
  const chosen = ids.length > 0 || options.all || options.reason || options.field || options.source;
  if (!chosen)
    throw new UserError("select dead letters: by ids, --reason, --field, --source, or --all");
  await withStores(async (stores) => {
    const letters =
      ids.length > 0
        ? await Promise.all(ids.map((id) => find(stores.deadLetters, id)))
        : await choose(stores.deadLetters, options);
    const done = { redriven: 0, dropped: 0, left: 0 };
    for (const letter of letters) {
      if (options.apply && what === "drop")
        done.dropped += (await stores.deadLetters.drop(letter.id)) ? 1 : 0;
      else if (options.apply) done[(await redrive(stores, letter)) ? "redriven" : "left"] += 1;
      else if (!options.json) process.stdout.write(lines(letter));
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
    process.stdout.write(`would ${what} ${counted(count)}; give --apply to do it\n`);
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
  const event = eventOf(letter);
  if (typeof event !== "object" || event === null) return false;
  const { source, id } = event as { source?: unknown; id?: unknown };
  if (typeof source !== "string" || typeof id !== "string") return false;
  await inbox.redrive(letter.id);
  return true;
}

async function choose(dead: DeadLetters, filter: Filter): Promise<StoredDeadLetter[]> {
  const letters: StoredDeadLetter[] = [];
  for await (const letter of dead.all()) {
    const field = filter.field;
    const named =
      field === undefined || letter.problems.some((p) => p.field.replace(/\[\d+\]/g, "") === field);
    const fits =
      (filter.reason === undefined || letter.reason === filter.reason) &&
      (filter.source === undefined || letter.source === filter.source);
    if (named && fits) letters.push(letter);
  }
  return letters.sort((a, b) => a.firstAt - b.firstAt);
}

async function find(dead: DeadLetters, id: string): Promise<StoredDeadLetter> {
  const letter = (await dead.find(id)) ?? (await dead.find(`c:${id}`));
  if (letter === undefined) throw new UserError(`there is no dead letter ${id}`);
  return letter;
}

function eventOf(letter: StoredDeadLetter): unknown {
  try {
    return JSON.parse(letter.event) as unknown;
  } catch {
    return letter.event;
  }
}

function jsonOf(letter: StoredDeadLetter) {
  const { event: _, order: __, arrival: ___, raw: ____, at, firstAt, ...rest } = letter;
  return {
    ...rest,
    remedy: remedyOf(letter),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(at).toISOString(),
  };
}

const remedyOf = (letter: StoredDeadLetter): string =>
  // Another version of crmsync may have stored it.
  REMEDIES[letter.reason] ?? "See the documentation of this version.";

const jsonLine = (letter: StoredDeadLetter): string => `${JSON.stringify(jsonOf(letter))}\n`;

function lines(letter: StoredDeadLetter): string {
  const when = new Date(letter.at).toISOString().slice(0, 19).replace("T", " ");
  const often = letter.times > 1 ? `, ${letter.times} times` : "";
  const problems = letter.problems.map(
    ({ field, rule, kind }) =>
      `    ${field === "" ? "(the whole)" : field} ${rule}; it is ${kind}\n`,
  );
  return [
    `${styleText("bold", letter.id)}  ${letter.reason}  ${when}${often}  ${letter.source ?? ""}\n`,
    ...problems,
    `    ${styleText("dim", remedyOf(letter))}\n`,
  ].join("");
}

const counted = (count: number): string => `${count} dead letter${count === 1 ? "" : "s"}`;

async function withStores(work: (stores: Stores) => Promise<void>): Promise<void> {
  const config = readConfig();
  const stores = openStores(config, await connectOnce(config));
  try {
    await work(stores);
  } finally {
    await stores.close();
  }
}
