/** Length of a text in characters as JSON Schema counts them: code points, not UTF-16 units. */
export const characters = (text: string): number => Array.from(text).length;
