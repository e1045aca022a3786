/** What became a dead letter, why, and how it comes to life again. */
import { styleText } from "node:util";
import { Command } from "commander";
import type { Redis } from "ioredis";
import { readConfig } from "../config.ts";
import { eventKey } from "../event/event-key.ts";
import { Inbox } from "../event/inbox.ts";
import { DeadLetters, type StoredDeadLetter } from "../state/dead-letters.ts";
import { keysOf } from "../state/keys.ts";
import { createEncryption } from "../state/encryption.ts";
import { StagedStates } from "../state/staged-state.ts";
import { REMEDIES, type DeadReason } from "../sync/dead-letter.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { UserError } from "../ops/user-error.ts";

interface Filter {
  readonly reason?: string;
  readonly field?: string;
  readonly source?: string;
  readonly json?: true;
}

interface Change extends Filter {
  readonly all?: true;
  readonly apply?: true;
}

interface Store {
  readonly redis: Redis;
  readonly dead: DeadLetters;
  readonly staged: StagedStates;
  readonly inbox: Inbox;
}

export function deadCommand(): Command {
  const dead = new Command("dead").description("see, redrive and drop dead letters");
  const filtered = (name: string, description: string) =>
    dead
      .command(name)
      .description(description)
      .option("--reason <reason>", `one of ${Object.keys(REMEDIES).join(", ")}`)
      .option("--field <field>", "letters that name this field")
      .option("--source <source>", "letters of events from this source")
      .option("--json", "one line of JSON a letter");
  filtered("list", "list them, oldest first").action(list);
  dead
    .command("show")
    .description("one letter whole, with its event (which holds personal data)")
    .argument("<id>", "as list shows it, or the crmCode")
    .option("--json", "as JSON")
    .action(show);
  filtered("redrive", "put their events onto the queue again; each is kept until it is cured")
    .argument("[ids...]", "these letters; else what the filters or --all choose")
    .option("--all", "all letters")
    .option("--apply", "do it; without, only tell what would be done")
    .action((ids: string[], options: Change) => change("redrive", ids, options));
  filtered("drop", "forget them for good")
    .argument("[ids...]", "these letters; else what the filters or --all choose")
    .option("--all", "all letters")
    .option("--apply", "do it; without, only tell what would be done")
    .action((ids: string[], options: Change) => change("drop", ids, options));
  return dead;
}

async function list(filter: Filter): Promise<void> {
  await withStore(async ({ dead }) => {
    const letters = await choose(dead, filter);
    for (const letter of letters)
      process.stdout.write(filter.json ? jsonLine(letter) : lines(letter));
    if (!filter.json) process.stdout.write(`${counted(letters.length)}\n`);
  });
}

async function show(id: string, options: { json?: true }): Promise<void> {
  await withStore(async ({ dead }) => {
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

async function change(
  what: "redrive" | "drop",
  ids: readonly string[],
  options: Change,
): Promise<void> {
  const chosen = ids.length > 0 || options.all || options.reason || options.field || options.source;
  if (!chosen) throw new UserError(`say which: ids, --reason, --field, --source, or --all`);
  await withStore(async (store) => {
    const letters =
      ids.length > 0
        ? await Promise.all(ids.map((id) => find(store.dead, id)))
        : await choose(store.dead, options);
    const done = { redriven: 0, dropped: 0, left: 0 };
    for (const letter of letters) {
      if (options.apply && what === "drop")
        done.dropped += (await store.dead.drop(letter.id)) ? 1 : 0;
      else if (options.apply) done[(await redrive(store, letter)) ? "redriven" : "left"] += 1;
      else if (!options.json) process.stdout.write(lines(letter));
    }
    tell(what, letters.length, done, options);
  });
}

function tell(
  what: string,
  count: number,
  done: Readonly<Record<"redriven" | "dropped" | "left", number>>,
  options: Change,
): void {
  if (options.json) {
    process.stdout.write(
      `${JSON.stringify({ chosen: count, applied: options.apply ?? false, ...done })}\n`,
    );
  } else if (!options.apply) {
    process.stdout.write(`would ${what} ${counted(count)}; give --apply to do it\n`);
  } else {
    const left = done.left > 0 ? `, ${done.left} left: they hold no event that could be sent` : "";
    process.stdout.write(`${done.redriven} redriven, ${done.dropped} dropped${left}\n`);
  }
}

/**
 * Puts the event onto the queue again. The letter stays until the event is staged; should it fail
 * again, it is the same letter, counted once more.
 */
async function redrive({ staged, inbox }: Store, letter: StoredDeadLetter): Promise<boolean> {
  const event = eventOf(letter);
  if (typeof event !== "object" || event === null) return false;
  const { source, id } = event as { source?: unknown; id?: unknown };
  if (typeof source !== "string" || typeof id !== "string") return false;
  await staged.forgetEvent(eventKey({ source, id }));
  await inbox.push([event as { source: string; id: string }]);
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
  const { event: _, order: __, at, firstAt, ...rest } = letter;
  return {
    ...rest,
    remedy: remedyOf(letter),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(at).toISOString(),
  };
}

const remedyOf = (letter: StoredDeadLetter): string =>
  REMEDIES[letter.reason as DeadReason] ?? "See the documentation of this version.";

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

async function withStore(work: (store: Store) => Promise<void>): Promise<void> {
  const config = readConfig();
  const redis = await connectOnce(config);
  const keys = keysOf(config.QUEUE_PREFIX);
  const seal = createEncryption(config.stateKey);
  const inbox = new Inbox(redis, config.QUEUE_PREFIX);
  try {
    const dead = new DeadLetters(redis, keys, seal);
    await work({ redis, dead, staged: new StagedStates(redis, keys, seal), inbox });
  } finally {
    await inbox.close();
    redis.disconnect();
  }
}
