/** Reads a tool's word for what happened to a record. */
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

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

/** Words that change the meaning of the word beside them. */
const DOUBTFUL = wordsOf(
  "un not non no before will to request requested failed fail error canceled cancelled scheduled pending",
);

/** Usual names of a record's object. */
const OBJECTS = wordsOf(
  "contact person people company companie account organization organisation customer client lead item",
);

/** What else may stand beside the word for a deletion. */
const OF_A_RECORD = wordsOf(
  "on after is was has been record object entity row event webhook crm hard soft permanently",
);

/**
 * What a usual word means: "update", "contact.deleted", "ContactCreated", "record_edited". A wrong deletion
 * terminates a client, and a word that is not understood is answered 400. Something that is removed from a
 * record does not delete the record, so "contact.tag.removed" and "company.contact.removed" are not clear.
 * @param object the record's object, where it is known.
 * @returns undefined when it is not clear.
 */
export function operationOfWord(word: string, object = ""): Operation | undefined {
  const parts = partsOf(word);
  if (parts.some((part) => DOUBTFUL.has(part))) return undefined;
  const found = new Set(
    parts.map((part) => OPERATION_OF.get(part)).filter((one) => one !== undefined),
  );
  const [only] = found;
  if (found.size !== 1) return undefined;
  return only === "deleted" && !namesOneObject(parts, object) ? undefined : only;
}

/** Whether the words name nothing but the record's own object, or one that usually has such a name. */
function namesOneObject(parts: readonly string[], object: string): boolean {
  const names = parts
    .filter((part) => ![part, singular(part)].some((one) => isNoName(one)))
    .map(singular);
  const own = new Set(partsOf(object).map(singular));
  if (names.every((name) => own.has(name))) return true;
  const [first = "", ...others] = new Set(names);
  return others.length === 0 && OBJECTS.has(first);
}

const isNoName = (part: string): boolean => OPERATION_OF.has(part) || OF_A_RECORD.has(part);

const partsOf = (text: string): string[] =>
  text
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((part) => part !== "");

const singular = (part: string): string => part.replace(/s$/, "");
