/** Length of a text as JSON Schema counts it: in code points, not in UTF-16 units. */
export function characters(text: string): number {
  let count = 0;
  // A loop, because an array of five million characters takes hundreds of megabytes.
  for (const _ of text) count += 1;
  return count;
}

/** The beginning of a text, of at most so many UTF-16 units; a surrogate pair is never cut. */
export function cut(text: string, units: number): string {
  if (text.length <= units) return text;
  const isPair = /[\ud800-\udbff]/.test(text.charAt(units - 1));
  return text.slice(0, isPair ? units - 1 : units);
}
