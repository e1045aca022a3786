/** Finds the dead letters that a user names or describes. */
import type { DeadLetters, StoredDeadLetter } from "../../state/dead-letters.ts";
import { deadLetterId } from "../../sync/dead-letter.ts";
import { problemFields } from "../../sync/problem-fields.ts";
import { UserError } from "../../ops/user-error.ts";
import { nameOf, subjectOf } from "./print.ts";

export interface Filter {
  readonly reason?: string;
  readonly field?: string;
  readonly source?: string;
}

/** Those that fit the filter, oldest first. */
export async function choose(dead: DeadLetters, filter: Filter): Promise<StoredDeadLetter[]> {
  return oldestFirst(dead, (letter) => {
    const { field } = filter;
    const named = field === undefined || problemFields(letter.problems).includes(field);
    const fits =
      (filter.reason === undefined || letter.reason === filter.reason) &&
      (filter.source === undefined || letter.source === filter.source);
    return named && fits;
  });
}

/**
 * The one dead letter of a name: its id, its crmCode, or the subject of its event.
 * @throws UserError when there is none, or several.
 */
export async function find(dead: DeadLetters, name: string): Promise<StoredDeadLetter> {
  const exact = await dead.find(name);
  if (exact !== undefined) return exact;
  const found = await oldestFirst(
    dead,
    (letter) => letter.id === deadLetterId(name) || subjectOf(letter) === name,
  );
  const [letter] = found;
  if (letter === undefined) throw new UserError(`there is no dead letter ${name}`);
  if (found.length === 1) return letter;
  throw new UserError(
    `${name} names ${found.length} dead letters; give the id of one:\n${found.map((one) => `  ${nameOf(one)}`).join("\n")}`,
  );
}

/** Each once, although it may be named twice. */
export async function findAll(
  dead: DeadLetters,
  names: readonly string[],
): Promise<StoredDeadLetter[]> {
  const found = await Promise.all(names.map((name) => find(dead, name)));
  return [...new Map(found.map((letter) => [letter.id, letter])).values()];
}

async function oldestFirst(
  dead: DeadLetters,
  wanted: (letter: StoredDeadLetter) => boolean,
): Promise<StoredDeadLetter[]> {
  const letters: StoredDeadLetter[] = [];
  for await (const letter of dead.all()) if (wanted(letter)) letters.push(letter);
  return letters.sort((a, b) => a.firstAt - b.firstAt);
}
