/** Compares texts of people and tools with those of a closed list or a table. */

/** Reduces a text for comparisons: letters and digits only, without case and accents. */
export function fold(text: string): string {
  return foldCase(text).replace(/[^\p{L}\p{N}]+/gu, "");
}

/** The text without case, accents and blanks. */
const foldCase = (text: string): string =>
  text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s+/g, "");

/** From the text as it is to its letters and digits alone. */
const SPELLINGS = [(text: string): string => text, foldCase, fold];

/** Finds the value of a text; undefined if there is none, or more than one. */
export type Finder<T> = (text: string) => T | undefined;

/**
 * Case, accents and punctuation do not matter where they make no difference: with both `A` and `A+`,
 * `a+` is `A+`, and `A?` is neither.
 */
export function finderOf<T>(entries: Iterable<readonly [text: string, value: T]>): Finder<T> {
  const all = [...entries];
  const levels = SPELLINGS.map((spell) => ({
    spell,
    values: Map.groupBy(all, ([text]) => spell(text)),
  }));
  return (text) => {
    for (const { spell, values } of levels) {
      const spelt = spell(text);
      const alike = spelt === "" ? undefined : values.get(spelt);
      if (alike === undefined) continue;
      const [found, ...others] = new Set(alike.map(([, value]) => value));
      return others.length === 0 ? found : undefined;
    }
    return undefined;
  };
}

/** One finder for each list, kept as long as the list itself. */
const finders = new WeakMap<Iterable<string>, Finder<string>>();

/** Finds a text in a closed list. */
export function lookUp(text: string, values: Iterable<string>): string | undefined {
  const known = finders.get(values);
  const find = known ?? finderOf([...values].map((value) => [value, value]));
  if (known === undefined) finders.set(values, find);
  return find(text);
}
