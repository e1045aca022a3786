/** External text may hold characters that move the cursor, hide or reorder what a terminal shows. */

/** All such characters except the two joiners, which names and emojis need. */
const UNPRINTABLE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Inside a JSON text, this escape means the character itself. */
const escapeOf = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");

/** Whether a terminal shows all of it as it is. */
export const isPrintable = (text: string): boolean => text.search(UNPRINTABLE) === -1;

/** A text for one line; also JSON on one line, which stays the same JSON. */
export const printable = (text: string): string => text.replace(UNPRINTABLE, escapeOf);

/** A text of several lines, in which no external text begins a line of its own. */
export const printableLines = (text: string): string => text.split("\n").map(printable).join("\n");

/** The same value with all its texts made printable. */
export function allPrintable<T>(value: T): T {
  if (typeof value === "string") return printable(value) as T;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(allPrintable) as T;
  const entries = Object.entries(value).map(([key, inner]) => [
    printable(key),
    allPrintable(inner as unknown),
  ]);
  return Object.fromEntries(entries) as T;
}
