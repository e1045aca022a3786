/** Length of a text in characters as JSON Schema counts them: code points, not UTF-16 units. */
export function characters(text: string): number {
  let count = 0;
  // Counted one by one: a list of five million characters would take hundreds of megabytes.
  for (const _ of text) count += 1;
  return count;
}
