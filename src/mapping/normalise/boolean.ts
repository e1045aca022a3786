import { foldCase } from "../fold.ts";

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** Words for yes and no in the languages of Luxembourg, Switzerland and their neighbours. */
const YES = wordsOf("true yes y t 1 on ja j oui o si sim wahr vrai vero waar verdadero verdadeiro");
const NO = wordsOf("false no n f 0 off nein non nee nao falsch faux onwaar falso");

export function toBoolean(value: string | number | boolean): boolean | undefined {
  if (typeof value === "boolean") return value;
  const word = foldCase(String(value));
  return YES.has(word) ? true : NO.has(word) ? false : undefined;
}
