/** `crmsync held`: lists, releases and drops changes that wait for a person. */
import { styleText } from "node:util";
import { Command } from "commander";
import {
  choose,
  findAll,
  type Filter,
  dropHeld,
  releaseHeld,
  originOf,
} from "../people/decide-held.ts";
import { counted } from "../base/counted.ts";
import { printable } from "../base/printable.ts";
import type { HeldTermination } from "../core/state/held-terminations.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import { heldBecause } from "../core/sync/record.ts";
import { isAsked, WHY_OPTION } from "./asked.ts";
import { operatorName, withStores } from "./operator.ts";
import { print, printEither } from "./output.ts";
import { requireSelection } from "./arguments.ts";

interface ListOptions extends Filter {
  readonly json?: true;
}

interface ActOptions extends ListOptions {
  readonly why?: string;
  readonly all?: true;
  readonly apply?: true;
}

const NAMES = "its crmCode, or its record, such as contact/7";

export function heldCommand(): Command {
  const held = new Command("held").description(
    "list, release and drop changes that wait for a person, beyond TERMINATE_LIMIT or EMPTY_LIMIT",
  );
  const filtered = (name: string, description: string) =>
    held
      .command(name)
      .description(description)
      .option("--source <source>", "only changes by events from this source");
  filtered("list", "list them, oldest first")
    .option("--json", "print one line of JSON per change")
    .action(list);
  const acting = (what: "release" | "drop", description: string) =>
    filtered(what, description)
      .argument("[names...]", `${NAMES}; without, --source or --all selects them`)
      .option("--all", "all held changes")
      .option("--apply", "do it; without it, only print what would be done")
      .option(...WHY_OPTION)
      .option("--json", "print the numbers as one line of JSON")
      .action((names: string[], options: ActOptions) => act(what, names, options));
  acting(
    "release",
    "send them: they are approved, do not count towards the limit, and are not held again",
  );
  acting(
    "drop",
    "delete them for good, with fields that were to be sent along: the relations stay as the service has them",
  );
  return held;
}

async function list(options: ListOptions): Promise<void> {
  await withStores(async ({ heldTerminations }) => {
    const found = await choose(heldTerminations, options);
    for (const one of found) printEither(options.json, jsonOf(one), nameOf(one));
    if (!options.json) print(countOf(found.length));
  });
}

async function act(
  what: "release" | "drop",
  names: readonly string[],
  options: ActOptions,
): Promise<void> {
  const isFiltered = options.all === true || options.source !== undefined;
  requireSelection(names, isFiltered, "held changes", "--source");
  await withStores(async (stores) => {
    await stores.stateVersion.require();
    const { heldTerminations } = stores;
    const found =
      names.length > 0
        ? await findAll(heldTerminations, names)
        : await choose(heldTerminations, options);
    const done = { released: 0, dropped: 0 };
    const { apply, json, why } = options;
    const items = async () => found.map(({ crmCode, version }) => [crmCode, version] as const);
    if (apply && (await isAsked(stores, { act: "held", what, reason: why }, items, json))) return;
    const by = await operatorName(stores);
    if (apply && what === "release") done.released = await releaseHeld(stores, by, found);
    else if (apply) done.dropped = await dropHeld(stores, by, found);
    else if (!options.json) for (const one of found) print(nameOf(one));
    printResult(what, found.length, done, options);
  });
}

function printResult(
  what: string,
  count: number,
  done: Readonly<Record<"released" | "dropped", number>>,
  options: ActOptions,
): void {
  const { apply = false, json } = options;
  const left = apply ? count - done.released - done.dropped : 0;
  const changed = left > 0 ? `, ${left} left: a newer event has replaced them` : "";
  const text = apply
    ? `${done.released} released, ${done.dropped} dropped${changed}`
    : `would ${what} ${countOf(count)}; give --apply to do it`;
  printEither(json, { chosen: count, applied: apply, ...done, left }, text);
}

/** One line: the crmCode, the event and its record, when, why it is held, and from where. */
function nameOf(held: HeldTermination): string {
  const { type, subject, source } = originOf(held);
  const happened = Number.isFinite(held.time) ? `of ${clockTime(held.time)}` : "";
  return [
    styleText("bold", printable(held.crmCode)),
    printable(`${type} ${subject}`),
    `${happened}, held since ${clockTime(held.heldAt)}: ${heldBecause(held.why, held.fields)}`,
    printable(source ?? ""),
  ].join("  ");
}

function jsonOf(held: HeldTermination) {
  const { crmCode, fields, heldAt, lane, time, why } = held;
  return {
    crmCode,
    ...originOf(held),
    lane,
    time: Number.isFinite(time) ? new Date(time).toISOString() : null,
    heldSince: new Date(heldAt).toISOString(),
    why,
    ...(fields.length > 0 && { fields }),
  };
}

const countOf = (count: number): string => counted(count, "held change");
