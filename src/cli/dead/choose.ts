/** Finds the dead letters that a user names. */
import { GROUP_ID } from "../../dead-letters/group-of.ts";
import { UserError } from "../../ops/user-error.ts";
import type { StoredDeadLetter } from "../../state/dead-letters.ts";
import { RecordNames } from "../../state/record-names.ts";
import type { Stores } from "../../status/stores.ts";
import { similarText } from "../similar-text.ts";
import { nameOf } from "./print.ts";

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
    : similarText(await lookup.similar(name));
  return new UserError(`there is no dead letter ${name}${hint}`);
}
