/**
 * One line of a CSV file (RFC 4180). What a table program would take for a formula gets an apostrophe in front, also after
 * a character at which some of them begin another cell.
 */
export const csvLine = (cells: readonly unknown[]): string =>
  `${cells.map((cell) => quoted(textOf(cell))).join(",")}\r\n`;

const textOf = (cell: unknown): string =>
  cell === undefined || cell === null
    ? ""
    : typeof cell === "object"
      ? JSON.stringify(cell)
      : `${cell as string | number}`;

/** One cell, with no character at its begin that a formula has, and none that another cell could begin with. */
const PLAIN = /^(?:[^=+\-@",;\t\r\n][^",;\t\r\n]*)?$/;

const quoted = (text: string): string => {
  if (PLAIN.test(text)) return text;
  const safe = text.replaceAll(/(?<=^|[;\t\r\n]\s*"?)(?=[=+\-@\t\r])/g, "'");
  return /[",;\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
