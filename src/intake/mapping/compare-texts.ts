/** Compares texts of people and tools with those of a closed list or a table. */

/** Reduces a text for comparisons: letters and digits only, without case and accents. */
export function fold(text: string): string {
  return foldCase(text).replace(/[^\p{L}\p{N}]+/gu, "");
}

/** The text without case, accents and blanks. */
export const foldCase = (text: string): string =>
  text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s+/g, "");

/** `company_sale` is `Company sale`; `-1` is not 1, `Client?` not Client. */
const foldWords = (text: string): string =>
  foldCase(text).replace(
    /(?<=\p{L})\.|(?<=[\p{L}\p{N}])_(?=[\p{L}\p{N}])|(?<=\p{L})[-/.'’&](?=\p{L})/gu,
    "",
  );

const SPELLINGS = [(text: string): string => text, foldCase, foldWords];

/** Finds the value of a text; undefined if there is none, or more than one. */
export type Finder<T> = (text: string) => T | undefined;

/**
 * Case, accents, and signs between letters do not matter where they make no difference; other signs do.
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

/**
 * The name that is most like `text`, for "did you mean"; undefined when none is similar.
 * @param most letters that may differ.
 */
export function nearest(
  text: string,
  names: Iterable<string>,
  most: number = Math.max(2, Math.floor(text.length / 3)),
): string | undefined {
  let best: string | undefined;
  let least = Math.min(text.length, most + 1);
  for (const name of names) {
    // At least as many letters differ.
    if (Math.abs(text.length - name.length) >= least) continue;
    const distance = editDistance(text.toLowerCase(), name.toLowerCase());
    // Short names differ in few letters, and mean nothing alike: zip and id.
    if (distance < least && distance * 2 <= Math.max(text.length, name.length)) {
      least = distance;
      best = name;
    }
  }
  return best;
}

/** Two neighbours that were swapped, as in `prot` for `port`, count as one letter. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let distances = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (distances[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : substituted;
      next.push(Math.min(substituted, swapped, (distances[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    [before, distances] = [distances, next];
  }
  return distances[b.length] ?? 0;
}
