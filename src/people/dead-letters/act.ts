/** What an operator does with dead letters: each act is recorded before it is done. */
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { Act } from "../../core/state/audit-acts.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { parsedEvent } from "./stored-event.ts";

/** Records who does this; see `Act`. */
export type RecordAct = (
  act: "dead.drop" | "dead.redrive",
  about: Pick<Act, "crmCode" | "event" | "details">,
) => Promise<void>;

/** `left`: dead letters that contain no event which could be sent. */
export interface Done {
  readonly redriven: number;
  readonly dropped: number;
  readonly left: number;
}

/**
 * Asks intake to accept the events again, each in its old place among the events of its record. A
 * dead letter stays until then; if its event fails again, the same one is counted once more.
 */
export async function redriveLetters(
  { inbox }: Pick<Stores, "inbox">,
  letters: AsyncIterable<StoredDeadLetter>,
  record: RecordAct,
): Promise<Done> {
  let redriven = 0;
  let left = 0;
  for await (const letter of letters) {
    await record("dead.redrive", aboutOf(letter));
    const canBeSent = identityOf(letter) !== undefined;
    if (canBeSent) await inbox.redrive(letter.id);
    redriven += canBeSent ? 1 : 0;
    left += canBeSent ? 0 : 1;
  }
  return { redriven, dropped: 0, left };
}

/** Deletes the letters for good, except those that were replaced since they were read. */
export async function dropLetters(
  { deadLetters }: Pick<Stores, "deadLetters">,
  letters: AsyncIterable<StoredDeadLetter>,
  record: RecordAct,
): Promise<Done> {
  let dropped = 0;
  for await (const letter of letters) {
    await record("dead.drop", aboutOf(letter));
    dropped += (await deadLetters.dropRead(letter)) ? 1 : 0;
  }
  return { redriven: 0, dropped, left: 0 };
}

/** What the audit trail says of a letter. */
const aboutOf = (letter: StoredDeadLetter): Parameters<RecordAct>[1] => ({
  crmCode: letter.crmCode,
  event: identityOf(letter),
  details: { letter: letter.id },
});

/** Undefined for an event that could not be sent. */
function identityOf(letter: StoredDeadLetter): { id: string; source: string } | undefined {
  const { source, id } = (parsedEvent(letter) ?? {}) as { source?: unknown; id?: unknown };
  return typeof source === "string" && typeof id === "string" ? { id, source } : undefined;
}
