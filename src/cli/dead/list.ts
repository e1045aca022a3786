/** `crmsync dead list` and `crmsync dead show`. */
import { groupDeadLetters } from "../../dead-letters/group.ts";
import { selectIds, type Filter } from "../../dead-letters/select.ts";
import { printable } from "../../ops/printable.ts";
import type { StoredDeadLetter } from "../../state/dead-letters.ts";
import type { Stores } from "../../status/stores.ts";
import { recordAct } from "../operator.ts";
import { print, printEither, printJson } from "../output.ts";
import { withStores } from "../with-stores.ts";
import { findAll } from "./choose.ts";
import { eventOf } from "../../dead-letters/stored-event.ts";
import { countOf, jsonOf, jsonOfGroup, linesOf, linesOfGroup, sumOfGroups } from "./print.ts";

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
