/** Finds the dead letters that a user names. */
import type { DeadLetters, StoredDeadLetter } from "../../state/dead-letters.ts";
import { deadLetterId } from "../../sync/dead-letter.ts";
import { GROUP_ID } from "../../dead-letters/group-of.ts";
import { UserError } from "../../ops/user-error.ts";
import { subjectOf } from "../../dead-letters/stored-event.ts";
import { nameOf } from "./print.ts";

/**
 * The dead letter of each name, each once: a name is its id, its crmCode, or the subject of its event.
 * @throws UserError when a name has none, or several.
 */
export async function findAll(
  dead: DeadLetters,
  names: readonly string[],
): Promise<StoredDeadLetter[]> {
  const found = new Map<string, StoredDeadLetter[]>(names.map((name) => [name, []]));
  for (const [name, letters] of found) {
    // A crmCode with a slash may be the subject of another letter.
    const ids = name.includes("/") ? [name] : [name, deadLetterId(name)];
    const [letter] = await Array.fromAsync(dead.read(ids));
    if (letter !== undefined) letters.push(letter);
  }
  const open = new Map([...found].filter(([, letters]) => letters.length === 0));
  // Opening 100,000 events takes 15 s: once for all names, and only where it must be.
  if (open.size > 0) {
    for await (const letter of dead.all()) {
      for (const name of new Set([letter.crmCode, subjectOf(letter)]))
        if (name !== undefined) open.get(name)?.push(letter);
    }
  }
  const each = [...found].map(([name, letters]) => oneOf(name, letters));
  return [...new Map(each.map((letter) => [letter.id, letter])).values()];
}

function oneOf(name: string, letters: StoredDeadLetter[]): StoredDeadLetter {
  letters.sort((a, b) => a.firstAt - b.firstAt);
  const [letter] = letters;
  if (letter === undefined) {
    const hint = GROUP_ID.test(name)
      ? `: it is a group, which list, redrive and drop select with --in-group ${name}`
      : "";
    throw new UserError(`there is no dead letter ${name}${hint}`);
  }
  if (letters.length === 1) return letter;
  throw new UserError(
    `${name} names ${letters.length} dead letters; give the id of one:\n${letters.map((one) => `  ${nameOf(one)}`).join("\n")}`,
  );
}
