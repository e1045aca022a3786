/**
 * The `when` of the rules of an object, and how a history points to those that have left a record out:
 * by a fingerprint of their texts, which stay in the mapping file. Pure.
 */
import { createHash } from "node:crypto";
import { IGNORE_REASONS, type IgnoreReason } from "../../core/sync/mapped.ts";

/** The `when` of one rule. */
export interface WhenRule {
  /** In lower case. */
  readonly objects: readonly string[];
  /** `Contact.when, line 12` */
  readonly place: string;
  readonly text: string;
}

/** The mapping as it is now. */
export interface PresentWhens {
  readonly name: string;
  /** Undefined when it cannot be read here. */
  readonly whens: readonly WhenRule[] | undefined;
}

/** A `when` that was not true for a record. */
export interface FailedWhen {
  readonly place: string;
  readonly text: string;
  /** It was neither true nor false, because a field was missing. */
  readonly undecided: boolean;
}

/** Why a record was left out. */
export interface LeftOut {
  readonly reason: IgnoreReason;
  /** What `pointerTo` has made. */
  readonly whens?: string | undefined;
}

const HASH_CHARACTERS = 6;

/** Rules whose `when` can be marked as undecided. */
const MOST_MARKED = 36;

/** A longer `when` is shown without its end, characters. */
const LONGEST = 200;

export function fingerprintOf(texts: readonly string[]): string {
  const hash = createHash("sha256").update(JSON.stringify(texts)).digest("base64url");
  return hash.slice(0, HASH_CHARACTERS);
}

/** @param undecided numbers of the object's rules whose `when` was neither true nor false. */
export const pointerTo = (fingerprint: string, undecided: readonly number[]): string =>
  fingerprint +
  undecided
    .filter((rule) => rule < MOST_MARKED)
    .map((rule) => rule.toString(MOST_MARKED))
    .join("");

/**
 * The rules that a pointer of an object means, in the order of the mapping.
 * @returns undefined when the mapping has other ones now, or cannot be read
 */
export function failedWhens(
  { whens: pointer }: Pick<LeftOut, "whens">,
  object: string,
  { whens }: PresentWhens,
): FailedWhen[] | undefined {
  if (pointer === undefined || whens === undefined) return undefined;
  const rules = whensOf(object, whens);
  const isSame = fingerprintOf(rules.map(({ text }) => text)) === pointer.slice(0, HASH_CHARACTERS);
  if (!isSame || rules.length === 0) return undefined;
  const undecided = new Set(pointer.slice(HASH_CHARACTERS));
  return rules.map(({ place, text }, index) => ({
    place,
    text,
    undecided: index < MOST_MARKED && undecided.has(index.toString(MOST_MARKED)),
  }));
}

/** Why a record of this object was left out, with each `when` that has decided it. */
export function leftOutText(left: LeftOut, object: string, present: PresentWhens): string {
  const why = `${IGNORE_REASONS[left.reason]} (object ${object})`;
  if (left.whens === undefined) return why;
  const failed = failedWhens(left, object, present);
  if (failed !== undefined) return `${why}: ${failed.map(textOf).join("; ")}`;
  const { name, whens } = present;
  if (whens === undefined)
    return `${why}; the mapping ${name} cannot be read here, so its \`when\` is not shown`;
  const now = whensOf(object, whens).map(textOf);
  const changed = `${why}; the mapping ${name} has other rules for it now`;
  return now.length === 0 ? `${changed}, without a \`when\`` : `${changed}: ${now.join("; ")}`;
}

const whensOf = (object: string, whens: readonly WhenRule[]): WhenRule[] =>
  whens.filter(({ objects }) => objects.includes(object.toLowerCase()));

function textOf({
  place,
  text,
  undecided = false,
}: Omit<FailedWhen, "undecided"> & { undecided?: boolean }): string {
  const line = text.replace(/\s+/g, " ").trim();
  const shown = line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
  return `\`${shown}\` (${place}${undecided ? "; undecided" : ""})`;
}
