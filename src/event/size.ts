/** A value that is no text counts as this many characters. */
const EACH = 8;

/**
 * Whether a JSON value has more than about so many characters. A value that is nested deeper than `levels`
 * counts as larger. The search ends as soon as the answer is known.
 */
export function isLargerThan(characters: number, levels: number, value: unknown): boolean {
  let left = characters;
  function goesBeyond(one: unknown, levelsLeft: number): boolean {
    left -= typeof one === "string" ? one.length : EACH;
    if (left < 0) return true;
    if (typeof one !== "object" || one === null) return false;
    if (levelsLeft === 0) return true;
    for (const key in one) {
      left -= key.length;
      if (goesBeyond((one as Record<string, unknown>)[key], levelsLeft - 1)) return true;
    }
    return false;
  }
  return goesBeyond(value, levels);
}
