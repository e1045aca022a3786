/** Texts that stand for no value, and those that a program has put in the place of one. */

/** What people and programs write for "none". As they are: a person may be called Null. */
const NOTHING: ReadonlySet<string> = new Set([
  "NULL",
  "null",
  "N/A",
  "n/a",
  "n.a.",
  "NaN",
  "nil",
  "(null)",
  "<null>",
  "\\N",
  "-",
  "--",
  "---",
  "–",
  "—",
  "k.A.",
  "k. A.",
  "(leer)",
  "(blank)",
  "(vide)",
  "(none)",
]);

/** Errors of spreadsheets and programs, a number that was shortened, and a formula: there was a value. */
const LOST =
  /^(?:#(?:N\/A|NV|REF!|BEZUG!|VALUE!|WERT!|NAME\?|DIV\/0!|NULL!|NUM!|ZAHL!|SPILL!)|\[object [A-Z]\w*\]|undefined|=".*"|[+-]?\d+[.,]\d+E[+-]?\d+|#{3,})$/;

/** @param more words of the mapping, in small letters */
export const isNothing = (text: string, more: ReadonlySet<string>): boolean =>
  NOTHING.has(text) || (more.size > 0 && more.has(text.toLowerCase()));

export const isLost = (text: string): boolean => LOST.test(text);
