/** `crmsync dead`: lists, shows, redrives and drops dead letters. */
import { crmsync } from "../base/command.ts";
import { Command, InvalidArgumentError } from "commander";
import { GROUP_ID } from "../people/dead-letters/group-of.ts";
import { DEAD_REASONS } from "../core/sync/dead-letter.ts";
import { EVENT_FIELDS, RECORD_FIELDS } from "../core/sync/outcomes.ts";
import { WHY_OPTION, isAsked } from "./asked.ts";
import { Choice, requireSelection, similarText } from "./arguments.ts";
import { UserError } from "../base/user-error.ts";
import type { StoredDeadLetter } from "../core/state/dead-letters.ts";
import { recordIds } from "../intake/mapping/record-ids.ts";
import { RecordNames } from "../core/state/record-names.ts";
import type { Stores } from "../operate/status/stores.ts";
import { groupDeadLetters, type DeadGroup, type DeadGroups } from "../people/dead-letters/group.ts";
import { selectIds, type Filter } from "../people/dead-letters/select.ts";
import { printable, allPrintable } from "../base/printable.ts";
import { recordAct, withStores } from "./operator.ts";
import { print, printEither, printJson, confirmed } from "./output.ts";
import { eventOf, laterOf, subjectOf } from "../people/dead-letters/stored-event.ts";
import { itemOf } from "../people/approvals/carry-out.ts";
import { dropLetters, redriveLetters, type Done } from "../people/dead-letters/act.ts";
import { previewRedrive, type RedrivePreview } from "../people/dead-letters/preview-redrive.ts";
import { openRedriveView } from "../people/dead-letters/forecast.ts";
import {
  forecastText,
  faultOf,
  laterText,
  remedyOf,
  previewRows,
} from "../people/dead-letters/words.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import { styleText } from "node:util";
import { counted } from "../base/counted.ts";
import { clockTime, duration } from "../operate/status/clock-time.ts";

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
  filtered(dead, "list", "list them, oldest first")
    .option("--json", "print one line of JSON per dead letter, or per group")
    .option("--group", "one entry per fault, with its number of dead letters, largest first")
    .action(list);
  dead
    .command("show")
    .description("show one dead letter with its event (which contains personal data)")
    .argument("<name>", NAMES)
    .option("--json", "print as JSON")
    .action(show);
  selecting(
    dead,
    "redrive",
    "accept the events again, in their original order; a dead letter stays until its record passes",
    redrive,
  )
    .option("--yes", "with --apply on a terminal: do not ask")
    .addHelpText(
      "after",
      `
It says beforehand what would become of each event now, by the present mapping (MAPPING), validation
and value lists. With --apply on a terminal it says so too, and asks.`,
    );
  selecting(dead, "drop", "delete them for good", drop).option(...WHY_OPTION);
  return dead;
}

function filtered(dead: Command, name: string, description: string): Command {
  return dead
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
    .option(
      "--in-group <id>",
      "only dead letters of this group, as list --group shows it",
      groupId,
    );
}

function selecting(
  dead: Command,
  name: string,
  description: string,
  act: (names: readonly string[], options: ActOptions) => Promise<void>,
): Command {
  return filtered(dead, name, description)
    .argument("[names...]", `${NAMES}; without, the filters or --all select them`)
    .option("--all", "all dead letters")
    .option("--apply", "do it; without it, only print what would be done")
    .option("--json", "print the numbers as one line of JSON")
    .action((names: string[], options: ActOptions, command: Command) => {
      const { all, apply, field, inGroup, reason, source, yes } = options;
      if (yes && !apply) command.error("error: --yes needs --apply");
      const isFiltered = Boolean(all || reason || field || source || inGroup);
      const filters = "--reason, --field, --source, --in-group";
      requireSelection(names, isFiltered, "dead letters", filters);
      return act(names, options);
    });
}

function groupId(text: string): string {
  if (GROUP_ID.test(text)) return text;
  throw new InvalidArgumentError("It must be the id of a group, such as g:0123456789.");
}

/**
 * The dead letter of each name, each once: a name is its id, its crmCode, or its record in the CRM.
 * @throws UserError when a name has none, or several.
 */
export async function findAll(
  stores: Stores,
  names: readonly string[],
): Promise<StoredDeadLetter[]> {
  const lookup = new RecordNames(stores);
  const found = new Map<string, StoredDeadLetter>();
  for (const name of names) {
    const letters = await Array.fromAsync(stores.deadLetters.read(await lookup.letters(name)));
    const [letter, another] = letters.sort((a, b) => a.firstAt - b.firstAt);
    if (letter === undefined) throw await noneOf(name, lookup);
    if (another !== undefined) {
      const ids = letters.map((one) => `  ${nameOf(one)}`).join("\n");
      throw new UserError(
        `${name} names ${letters.length} dead letters; give the id of one:\n${ids}`,
      );
    }
    found.set(letter.id, letter);
  }
  return [...found.values()];
}

async function noneOf(name: string, lookup: RecordNames): Promise<UserError> {
  const hint = GROUP_ID.test(name)
    ? `: it is a group, which list, redrive and drop select with --in-group ${name}`
    : similarText(await lookup.similar(name, recordIds()));
  return new UserError(`there is no dead letter ${name}${hint}`);
}

interface ListOptions extends Filter {
  readonly group?: true;
  readonly json?: true;
}

/** Dead letters whose end is looked up in one command. */
const BATCH = 200;

export const list = (options: ListOptions): Promise<void> =>
  withStores((stores) => (options.group ? listGroups(stores, options) : listAll(stores, options)));

async function listAll(stores: Stores, options: ListOptions): Promise<void> {
  const { deadLetters: dead, deadLetterExpiry } = stores;
  const ids = await selectIds(dead, options);
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    const left = await deadLetterExpiry.left(batch);
    for await (const letter of dead.read(batch)) {
      const leftMs = left.get(letter.id);
      printEither(options.json, jsonOf(letter, leftMs), linesOf(letter, leftMs));
    }
  }
  if (!options.json) print(countOf(ids.length));
}

async function listGroups({ deadLetters }: Stores, options: ListOptions): Promise<void> {
  const found = await groupDeadLetters(deadLetters, options);
  for (const group of found.groups) {
    printEither(options.json, jsonOfGroup(group), linesOfGroup(group));
  }
  if (!options.json) print(sumOfGroups(found));
}

export async function show(name: string, options: { json?: true }): Promise<void> {
  await withStores(async (stores) => {
    const { deadLetterExpiry } = stores;
    const [letter] = (await findAll(stores, [name])) as [StoredDeadLetter];
    // The event holds personal data: who reads it is recorded.
    const { crmCode, id } = letter;
    await recordAct(stores, "dead.show", { crmCode, details: { letter: id } });
    const leftMs = (await deadLetterExpiry.left([letter.id])).get(letter.id);
    const event = eventOf(letter);
    if (options.json) return printJson({ ...jsonOf(letter, leftMs), event });
    print(linesOf(letter, leftMs));
    if (typeof event === "string") print(printable(event));
    else printJson(event, 2);
  });
}

export interface ActOptions extends Filter {
  readonly all?: true;
  readonly apply?: true;
  readonly yes?: true;
  readonly why?: string;
  readonly json?: true;
}

/** Up to so many dead letters are shown one by one before the preview. */
const MAX_LISTED = 20;

const NOTHING: Done = { redriven: 0, dropped: 0, left: 0 };

export const redrive = (names: readonly string[], options: ActOptions): Promise<void> =>
  withStores(async (stores) => {
    const ids = await idsOf(stores, names, options);
    const asks = options.apply && !options.yes && !options.json && process.stdin.isTTY;
    const preview = options.apply && !asks ? undefined : await showPreview(stores, ids, options);
    const question = `redrive ${countOf(ids.length)}?`;
    const isWanted = asks ? ids.length > 0 && (await confirmed(question)) : options.apply;
    const done = isWanted
      ? await redriveLetters(stores, stores.deadLetters.read(ids), recordBy(stores))
      : NOTHING;
    // After a no to the question nothing is printed. Without a question, the result is printed in any case.
    if (isWanted || !asks || ids.length === 0)
      printResult("redrive", ids.length, done, options, preview);
  });

export const drop = (names: readonly string[], options: ActOptions): Promise<void> =>
  withStores(async (stores) => {
    const ids = await idsOf(stores, names, options);
    const letters = stores.deadLetters.read(ids);
    if (options.apply) {
      const items = () => Array.fromAsync(letters, itemOf);
      if (await isAsked(stores, { act: "drop", reason: options.why }, items, options.json)) return;
      const done = await dropLetters(stores, letters, recordBy(stores));
      return printResult("drop", ids.length, done, options);
    }
    if (!options.json) for await (const letter of letters) print(linesOf(letter));
    printResult("drop", ids.length, NOTHING, options);
  });

async function idsOf(
  stores: Stores,
  names: readonly string[],
  options: ActOptions,
): Promise<readonly string[]> {
  await stores.stateVersion.require();
  return names.length > 0
    ? (await findAll(stores, names)).map(({ id }) => id)
    : selectIds(stores.deadLetters, options);
}

const recordBy =
  (stores: Stores): Parameters<typeof redriveLetters>[2] =>
  (act, about) =>
    recordAct(stores, act, about);

/** What a redrive would achieve; a few letters are shown one by one. */
async function showPreview(
  stores: Stores,
  ids: readonly string[],
  { json }: ActOptions,
): Promise<RedrivePreview> {
  await stores.clock.measure();
  const mapping = await loadMapping(stores.config.MAPPING);
  try {
    const view = await openRedriveView(stores, mapping);
    const isShort = !json && ids.length <= MAX_LISTED;
    const preview = await previewRedrive(stores.deadLetters.read(ids), view, (letter, forecast) => {
      if (isShort) print(`${linesOf(letter)}\n    now: ${forecastText(forecast)}`);
    });
    if (!json) linesOfPreview(preview).forEach(print);
    return preview;
  } finally {
    await mapping.close();
  }
}

function printResult(
  what: "redrive" | "drop",
  count: number,
  done: Done,
  options: ActOptions,
  preview?: RedrivePreview,
): void {
  const { apply = false, json } = options;
  const left = done.left > 0 ? `, ${done.left} left: they contain no event that could be sent` : "";
  const text = apply
    ? `${done.redriven} redriven, ${done.dropped} dropped${left}`
    : `would ${what} ${countOf(count)}; give --apply to do it`;
  printEither(json, { chosen: count, applied: apply, ...done, preview }, text);
}

/** One line: its id, the record, the reason, when and from where. */
export function nameOf(stored: StoredDeadLetter, style = (id: string) => id): string {
  const { id, crmCode, reason, times, source, at } = allPrintable(stored);
  const often = times > 1 ? `, ${times} times` : "";
  const subject = printable(subjectOf(stored) ?? "no subject");
  const record = `${subject} (${crmCode === undefined ? "no crmCode" : `crmCode ${crmCode}`})`;
  return [style(id), record, reason, `${clockTime(at)}${often}`, source ?? ""].join("  ");
}

/** Its name, and below it what is wrong. @param leftMs until it is deleted; undefined: it never is, or the lines need not say it. */
export function linesOf(letter: StoredDeadLetter, leftMs?: number): string {
  const problems = allPrintable(letter.problems).map(
    ({ field, rule, kind }) => `${field === "" ? "(the whole)" : field} ${rule}; it is ${kind}`,
  );
  const end = leftMs === undefined ? "" : ` It is deleted in ${duration(leftMs)}.`;
  const remedy = styleText("dim", `${remedyOf(letter)}${end}`);
  const later = laterText(letter);
  const name = nameOf(letter, (id) => styleText("bold", id));
  return [name, ...problems, ...(later === undefined ? [] : [later]), remedy].join("\n    ");
}

/** @param leftMs until it is deleted; undefined: never. */
export function jsonOf(letter: StoredDeadLetter, leftMs: number | undefined) {
  const { id, reason, problems, source, crmCode, times, at, firstAt } = letter;
  return {
    id,
    reason,
    problems,
    source,
    crmCode,
    times,
    laterStatus: laterOf(letter)?.status,
    subject: subjectOf(letter),
    remedy: remedyOf(letter),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(at).toISOString(),
    deletedInSeconds: leftMs === undefined ? null : Math.round(leftMs / 1000),
  };
}

export const countOf = (count: number): string => counted(count, "dead letter");

const columnsOf = (letters: number): string => String(letters).padStart(6);

export function linesOfGroup(stored: DeadGroup): string {
  const group = allPrintable(stored);
  const { letters, firstAt, lastAt, example, reason, sources } = group;
  const kind = example.kind === "" ? "" : `; in the newest it is ${example.kind}`;
  const from = sources.length === 0 ? "" : `, from ${sources.join(", ")}`;
  const count = styleText("bold", columnsOf(letters));
  return [
    `${count}  ${faultOf(group)} (${reason})${kind}`,
    `${group.id}  first ${clockTime(firstAt)}, last ${clockTime(lastAt)}${from}; e.g. ${example.id}`,
    styleText("dim", remedyOf(group)),
  ].join("\n        ");
}

export function jsonOfGroup({ id, firstAt, lastAt, ...group }: DeadGroup) {
  return {
    group: id,
    ...group,
    remedy: remedyOf(group),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(lastAt).toISOString(),
  };
}

export function sumOfGroups({ letters, inSeveral, groups, leftOut }: DeadGroups): string {
  const several =
    inSeveral === 0 ? "" : `; ${counted(inSeveral, "of them has", "of them have")} several faults`;
  const more =
    leftOut === 0
      ? ""
      : `; ${counted(leftOut, "more fault")} in smaller groups: ${crmsync`dead list`} names them`;
  return `${countOf(letters)} in ${counted(groups.length, "group")}${several}${more}`;
}

/** What a redrive would achieve, a line each. */
const linesOfPreview = (preview: RedrivePreview): string[] =>
  previewRows(preview).map(([letters, says]) => `${columnsOf(letters)}  ${says}`);
