/** Groups dead letters by what is wrong: one mistake in the mapping may be one group of 300 letters. */
import type { DeadLetters, LetterDetails } from "../../core/state/dead-letters.ts";
import { groupsOf, type GroupKey } from "./group-of.ts";
import { fits, type Filter } from "./select.ts";

export interface DeadGroup extends GroupKey {
  /** How many dead letters have this fault. A letter with several faults counts in several groups. */
  readonly letters: number;
  /** When the oldest was first stored, and when the newest was stored last, ms. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** Some of the sources that they came from. */
  readonly sources: readonly string[];
  /** The newest of them, and the kind of value that was found in it ("": not known). */
  readonly example: {
    readonly id: string;
    readonly crmCode: string | undefined;
    readonly kind: string;
  };
}

export interface DeadGroups {
  /** Dead letters that fit the filter. */
  readonly letters: number;
  /** Those of them with several faults. */
  readonly inSeveral: number;
  /** Largest first. */
  readonly groups: readonly DeadGroup[];
  /** Faults that are in none of the groups, because there are too many different ones. */
  readonly leftOut: number;
}

/** Groups that are returned, and that are counted: the words of the service may differ each time. */
const MOST_RETURNED = 200;
const MOST_COUNTED = 5000;

const MOST_SOURCES = 5;

type Growing = { -readonly [Key in keyof DeadGroup]: DeadGroup[Key] };

/** @param onLetter called for each one that fits, with its groups. */
export async function groupDeadLetters(
  dead: Pick<DeadLetters, "details">,
  filter: Filter = {},
  onLetter: (letter: LetterDetails, keys: readonly GroupKey[]) => void = () => {},
): Promise<DeadGroups> {
  const groups = new Map<string, Growing>();
  let letters = 0;
  let inSeveral = 0;
  let faults = 0;
  for await (const letter of dead.details()) {
    if (!fits(letter, filter)) continue;
    const keys = groupsOf(letter);
    letters += 1;
    inSeveral += keys.length > 1 ? 1 : 0;
    faults += keys.length;
    for (const key of keys) count(groups, key, letter);
    onLetter(letter, keys);
  }
  const largest = [...groups.values()]
    .sort((a, b) => b.letters - a.letters || b.lastAt - a.lastAt)
    .slice(0, MOST_RETURNED);
  const inGroups = largest.reduce((sum, group) => sum + group.letters, 0);
  return { letters, inSeveral, groups: largest, leftOut: faults - inGroups };
}

function count(groups: Map<string, Growing>, key: GroupKey, letter: LetterDetails): void {
  const { at, firstAt, source } = letter;
  const known = groups.get(key.id);
  if (known === undefined) {
    if (groups.size === MOST_COUNTED) return;
    const sources = source === undefined ? [] : [source];
    const example = exampleOf(key, letter);
    groups.set(key.id, { ...key, letters: 1, firstAt, lastAt: at, sources, example });
    return;
  }
  known.letters += 1;
  known.firstAt = Math.min(known.firstAt, firstAt);
  if (at > known.lastAt) {
    known.lastAt = at;
    known.example = exampleOf(key, letter);
  }
  const isNew = source !== undefined && !known.sources.includes(source);
  if (isNew && known.sources.length < MOST_SOURCES) known.sources = [...known.sources, source];
}

function exampleOf({ id: group }: GroupKey, letter: LetterDetails): DeadGroup["example"] {
  const { id, crmCode, problems, reason } = letter;
  const problem = problems.find((one) =>
    groupsOf({ reason, problems: [one] }).some((key) => key.id === group),
  );
  return { id, crmCode, kind: problem?.kind ?? "" };
}
