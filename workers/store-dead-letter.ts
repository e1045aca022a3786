import type { DeadLetter } from "../src/sync/dead-letter.ts";
import { notedProblems, notedText } from "../src/sync/noted.ts";
import type { Runtime } from "./runtime.ts";

/** Stores the dead letter of an event that never reached its record, and notes it in the history. */
export async function storeDeadLetter(
  { deadLetters, history }: Pick<Runtime, "deadLetters" | "history">,
  letter: DeadLetter,
): Promise<void> {
  await deadLetters.store(letter);
  const event = notedText(parsed(letter.event), {});
  if (event === undefined) return;
  history.note(event, { kind: "dead", problems: notedProblems(letter.reason, letter.problems) });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
