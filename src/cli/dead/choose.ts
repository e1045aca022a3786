/** Finds the dead letters that a user names. */
import type { DeadLetters, StoredDeadLetter } from "../../state/dead-letters.ts";
import { deadLetterId } from "../../sync/dead-letter.ts";
import { GROUP_ID } from "../../dead-letters/group-of.ts";
import { UserError } from "../../ops/user-error.ts";
import { subjectOf } from "../../dead-letters/stored-event.ts";
import { nameOf } from "./print.ts";

/**
 * The one dead letter of a name: its id, its crmCode, or the subject of its event.
 * @throws UserError when there is none, or several.
 */
export async function find(dead: DeadLetters, name: string): Promise<StoredDeadLetter> {
  const [exact] = await Array.fromAsync(dead.read([name]));
  if (exact !== undefined) return exact;
  const found: StoredDeadLetter[] = [];
  for await (const letter of dead.all()) {
    if (letter.id === deadLetterId(name) || subjectOf(letter) === name) found.push(letter);
  }
  found.sort((a, b) => a.firstAt - b.firstAt);
  const [letter] = found;
  if (letter === undefined) {
    const hint = GROUP_ID.test(name)
      ? `: it is a group, which list, redrive and drop select with --in-group ${name}`
      : "";
    throw new UserError(`there is no dead letter ${name}${hint}`);
  }
  if (found.length === 1) return letter;
  throw new UserError(
    `${name} names ${found.length} dead letters; give the id of one:\n${found.map((one) => `  ${nameOf(one)}`).join("\n")}`,
  );
}

/** Their ids, each once, although it may be named twice. */
export async function findIds(dead: DeadLetters, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => find(dead, name)));
  return [...new Set(found.map(({ id }) => id))];
}
