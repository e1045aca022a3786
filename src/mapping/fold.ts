/** What is left of a text for comparing: letters and digits, without case and accents. */
export function fold(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "");
}

/** Looks a text up in a closed list as a person would: case, accents and punctuation apart. */
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
