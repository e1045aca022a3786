/** Reads a tool's word for what happened to a record. */
import { fold } from "../fold.ts";
import type { Operation } from "./rule.ts";

const WORDS: Readonly<Record<Operation, string>> = {
  created: "create created creation insert inserted add added new",
  updated:
    "update updated change changed changes edit edited modify modified upsert upserted write saved",
  deleted:
    "delete deleted deletion remove removed destroy destroyed unlink unlinked trash trashed purged",
  restored: "restore restored undelete undeleted untrash untrashed",
};

const OPERATION_OF: ReadonlyMap<string, Operation> = new Map(
  Object.entries(WORDS).flatMap(([operation, words]) =>
    words.split(/\s+/).map((word) => [word, operation as Operation] as const),
  ),
);

/** Words that change the meaning of the word beside them. */
const DOUBTFUL = /^(?:un|not|non|no|before|will|to|request|requested|failed|fail)$/;

/**
 * What a usual word means: "update", "contact.deleted", "ContactCreated", "record_edited".
 * @returns undefined when it is not clear.
 */
export function operationOfWord(word: string): Operation | undefined {
  const parts = word
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/);
  if (parts.some((part) => DOUBTFUL.test(part))) return undefined;
  const found = new Set(
    parts.map((part) => OPERATION_OF.get(part)).filter((one) => one !== undefined),
  );
  const [only] = found;
  return found.size === 1 ? only : undefined;
}

/** A table of the mapping file, without case, accents and punctuation. */
export type OperationTable = ReadonlyMap<string, Operation | null>;

export const foldOperations = (table: Readonly<Record<string, Operation | null>>): OperationTable =>
  new Map(Object.entries(table).map(([word, meant]) => [fold(word), meant]));
