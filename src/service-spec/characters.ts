/** Length of a text as JSON Schema counts it: in code points, not in UTF-16 units. */
export function characters(text: string): number {
  let count = 0;
  // A loop, because an array of five million characters takes hundreds of megabytes.
  for (const _ of text) count += 1;
  return count;
}
