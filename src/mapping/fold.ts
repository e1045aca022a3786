/** Reduces a text for comparisons: letters and digits only, without case and accents. */
export function fold(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "");
}

/** Finds a text in a closed list; case, accents and punctuation do not matter. */
export function lookUp(text: string, values: Iterable<string>): string | undefined {
  const wanted = fold(text);
  if (wanted === "") return undefined;
  let found: string | undefined;
  for (const value of values) {
    if (value === text) return value;
    if (fold(value) === wanted) found ??= value;
  }
  return found;
}
