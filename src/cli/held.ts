/** `crmsync held`: lists, releases and drops terminations beyond TERMINATE_LIMIT. */
import { Command } from "commander";
import { printable } from "../ops/printable.ts";
import { UserError } from "../ops/user-error.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { choose, findAll, type Filter } from "./held/choose.ts";
import { countOf, jsonOf, nameOf, originOf } from "./held/print.ts";
import { recordAct } from "./operator.ts";
import { withStores } from "./with-stores.ts";

interface ListOptions extends Filter {
  readonly json?: true;
}

interface ActOptions extends ListOptions {
  readonly all?: true;
  readonly apply?: true;
}

/** Pointer jobs that are added in one round trip. */
const CHUNK = 500;

const NAMES = "its crmCode, or its record, such as contact/7";

export function heldCommand(): Command {
  const held = new Command("held").description(
    "list, release and drop terminations beyond TERMINATE_LIMIT",
  );
  const filtered = (name: string, description: string) =>
    held
      .command(name)
      .description(description)
      .option("--source <source>", "only terminations by events from this source")
      .option("--json", "print one line of JSON per termination");
  filtered("list", "list them, oldest first").action(list);
  const acting = (what: "release" | "drop", description: string) =>
    filtered(what, description)
      .argument("[names...]", `${NAMES}; without, --source or --all selects them`)
      .option("--all", "all held terminations")
      .option("--apply", "do it; without it, only print what would be done")
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
    for (const one of found) {
      const line = options.json ? printable(JSON.stringify(jsonOf(one))) : nameOf(one);
      process.stdout.write(`${line}\n`);
    }
    if (!options.json) process.stdout.write(`${countOf(found.length)}\n`);
  });
}

async function act(
  what: "release" | "drop",
  names: readonly string[],
  options: ActOptions,
): Promise<void> {
  if (names.length === 0 && !options.all && options.source === undefined) {
    throw new UserError("select held terminations: by their names, --source, or --all");
  }
  await withStores(async (stores) => {
    await stores.stateVersion.require();
    const { heldTerminations } = stores;
    const found =
      names.length > 0
        ? await findAll(heldTerminations, names)
        : await choose(heldTerminations, options);
    const done = { released: 0, dropped: 0 };
    if (options.apply) for (const one of found) await recordHeldAct(stores, what, one);
    if (options.apply && what === "release") done.released = await release(stores, found);
    else if (options.apply) done.dropped = await drop(stores, found);
    else if (!options.json) for (const one of found) process.stdout.write(`${nameOf(one)}\n`);
    printResult(what, found.length, done, options);
  });
}

/** Written before it is done. */
async function recordHeldAct(
  stores: Stores,
  what: "release" | "drop",
  held: HeldTermination,
): Promise<void> {
  const { id, source } = originOf(held);
  await recordAct(stores, `held.${what}`, { crmCode: held.crmCode, event: { id, source } });
}

/** @returns how many were still held. */
async function release(
  { demand, heldTerminations, pointers }: Stores,
  found: readonly HeldTermination[],
): Promise<number> {
  let released = 0;
  for (let from = 0; from < found.length; from += CHUNK) {
    const chunk = await Promise.all(
      found.slice(from, from + CHUNK).map(async ({ crmCode }) => {
        const lane = await heldTerminations.release(crmCode);
        return lane === undefined ? [] : [{ crmCode, lane }];
      }),
    );
    const records = chunk.flat();
    await demand.changed(records);
    await pointers.add(records);
    released += records.length;
  }
  return released;
}

async function drop(
  { heldTerminations }: Stores,
  found: readonly HeldTermination[],
): Promise<number> {
  let dropped = 0;
  for (const { crmCode } of found) dropped += (await heldTerminations.drop(crmCode)) ? 1 : 0;
  return dropped;
}

function printResult(
  what: string,
  count: number,
  done: Readonly<Record<"released" | "dropped", number>>,
  options: ActOptions,
): void {
  const left = options.apply ? count - done.released - done.dropped : 0;
  if (options.json) {
    const applied = options.apply ?? false;
    process.stdout.write(`${JSON.stringify({ chosen: count, applied, ...done, left })}\n`);
  } else if (!options.apply) {
    process.stdout.write(`would ${what} ${countOf(count)}; give --apply to do it\n`);
  } else {
    const changed = left > 0 ? `, ${left} left: a newer event has replaced them` : "";
    process.stdout.write(`${done.released} released, ${done.dropped} dropped${changed}\n`);
  }
}
