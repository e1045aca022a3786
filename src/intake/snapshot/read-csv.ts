/** Records in CSV: the first row names the fields, the delimiter is found out. */
import { Readable, pipeline } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { UserError } from "../../base/user-error.ts";
import type { Item, Reading } from "./item.ts";

const DELIMITERS = [",", ";", "\t", "|"] as const;

/** So many rows tell the delimiter. */
const SAMPLE_ROWS = 20;

/** A row of CSV has no more characters, so that a missing quote does not swallow the file. */
const MAX_ROW = 1_000_000;

/**
 * @param start the beginning of the text, which tells the delimiter.
 * @param onSkipped called for each row that is no record: it has no letter and no digit, repeats the names of the
 *   columns, or is one of `reading.skipRows`
 */
export async function* readCsv(
  file: string,
  start: string,
  texts: AsyncIterable<string>,
  { skipColumns = [], skipRows = [] }: Reading = {},
  onSkipped: () => void = () => {},
): AsyncGenerator<Item> {
  // Excel writes the delimiter into a line of its own.
  const named = /^"?sep=(.)"?\r?\n/i.exec(start);
  const delimiter = named?.[1] ?? delimiterOf(start.replace(/^[\r\n]+/, ""));
  const parser = parse({
    delimiter,
    // A file that was put together from several may have several.
    record_delimiter: ["\r\n", "\n", "\r"],
    from_line: named === null ? 1 : 2,
    max_record_size: MAX_ROW,
    relax_column_count: true,
  });
  // Its errors end the iteration below.
  pipeline(Readable.from(texts), parser, () => {});
  let columns: Columns = [];
  let header: Item["header"] = {};
  let hasRows = false;
  try {
    for await (const [row, cells] of withoutRows(parser, skipRows, onSkipped)) {
      const given = cells.map((cell, index) => (skipColumns.includes(index + 1) ? "" : cell));
      if (columns.length === 0) {
        columns = columnsOf(file, row, given);
        header = nested(columns.filter((name) => name !== "").map((name) => [name, name]));
        continue;
      }
      hasRows = true;
      if (isNoRecord(given, columns)) {
        onSkipped();
        continue;
      }
      const value = recordOf(file, row, columns, given);
      yield { place: `${file}, row ${row}`, value, ...(header && { header }) };
    }
  } catch (error) {
    throw errorOf(file, error as Error);
  }
  if (columns.length > 0 && !hasRows)
    throw new UserError(`${file} has a row of names and no record`);
}

/** The rows with their numbers, as a spreadsheet counts them: empty lines count, and are left out. */
async function* withoutRows(
  rows: AsyncIterable<string[]>,
  skip: readonly number[],
  onSkipped: () => void,
): AsyncGenerator<readonly [row: number, cells: string[]]> {
  const atEnd = Math.max(0, ...skip.map((number) => -number));
  const held: (readonly [row: number, cells: string[]])[] = [];
  let row = 0;
  for await (const cells of rows) {
    row += 1;
    if (cells.length === 1 && cells[0] === "") continue;
    if (skip.includes(row)) onSkipped();
    else held.push([row, cells]);
    const next = held.length > atEnd ? held.shift() : undefined;
    if (next !== undefined) yield next;
  }
  for (const [index, one] of held.entries()) {
    if (skip.includes(index - held.length)) onSkipped();
    else yield one;
  }
}

/** No letter and no digit, as Excel leaves rows of delimiters; or the names of the columns once more. */
const isNoRecord = (cells: readonly string[], columns: Columns): boolean =>
  !cells.some((cell) => /[\p{L}\p{N}]/u.test(cell)) ||
  cells.every((cell, index) => cellOf(cell) === columns[index]);

/** A byte order mark stands in the middle where files were put together. */
const cellOf = (cell: string): string => cell.replaceAll(/[\u200b\u2060\ufeff\u00ad]/g, "").trim();

/** Names of the columns; "" for one that has none. */
type Columns = readonly string[];

function columnsOf(file: string, row: number, cells: readonly string[]): Columns {
  const names = cells.map(cellOf);
  if (names[0]?.startsWith("#") === true) {
    throw new UserError(
      `${file}, row ${row} begins with #, and should name the columns: if it is a comment, give --skip-rows ${row}`,
    );
  }
  const named = names.filter((name) => name !== "");
  const known = new Set<string>();
  const twice = named.find((name) => known.size === known.add(name).size);
  if (named.length === 0) throw new UserError(`${file}: the first row must name the columns`);
  if (twice !== undefined) {
    throw new UserError(`${file} has two columns with the name ${twice}: rename one of them`);
  }
  return names;
}

/** An empty cell means that the record has no value. */
function recordOf(file: string, row: number, columns: Columns, cells: readonly string[]) {
  if (cells.length !== columns.length) {
    throw new UserError(
      `${file}, row ${row} does not have as many columns as the first row: the file is cut off, its columns are shifted, or the row is no record: then give --skip-rows ${row}`,
    );
  }
  const fields: [string, string][] = [];
  for (const [index, value] of cells.entries()) {
    if (value === "") continue;
    const name = columns[index] ?? "";
    if (name === "") {
      const column = index + 1;
      throw new UserError(
        `${file}, row ${row} has a value in column ${column}, which has no name: the columns are shifted, or the first row is a title (give --skip-rows 1), or it is an index (give --skip-columns ${column})`,
      );
    }
    fields.push([name, value]);
  }
  return nested(fields);
}

/** A place in a list has two digits at most. */
const PATH = /^(?!.*[.[]\d{3,}(?:[.\]]|$))[^.[\]]+(?:\.[^.[\]]+|\[\d+\])+$/;
const STEPS = /[^.[\]]+|\[\d+\]/g;

const isContainer = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

/**
 * The paths `address.city` and `emails[0].value` find a column of that name, unless there is a column `address`
 * or `emails`, too.
 */
function nested(fields: readonly (readonly [name: string, value: string])[]) {
  const record: Record<string, unknown> = Object.fromEntries(fields);
  for (const [name, value] of fields) {
    if (!PATH.test(name) || name.includes("__proto__")) continue;
    const steps = (name.match(STEPS) ?? []).map((step) => step.replace(/^\[(\d+)\]$/, "$1"));
    const last = steps.pop() ?? "";
    let at: unknown = record;
    for (const [index, step] of steps.entries()) {
      const next = steps[index + 1] ?? last;
      if (isContainer(at)) at = at[step] ??= /^\d+$/.test(next) ? [] : {};
    }
    if (isContainer(at)) at[last] = value;
  }
  return record;
}

/** The parser's own messages may quote values. */
function errorOf(file: string, error: Error): Error {
  if (!(error instanceof CsvError)) return error;
  const { code, lines } = error as CsvError & { lines?: number };
  const where = lines === undefined ? file : `${file}, line ${lines}`;
  const what =
    MISTAKES.find(([codes]) => codes.includes(code))?.[1] ??
    `is not CSV (${code}): a quote inside a value must be doubled, and that value quoted`;
  return new UserError(`${where} ${what}`);
}

const MISTAKES: readonly (readonly [codes: readonly string[], what: string])[] = [
  [
    ["CSV_QUOTE_NOT_CLOSED"],
    "has a quoted value that does not end: the file is cut off, or a quote inside a value is not doubled",
  ],
  [
    ["CSV_MAX_RECORD_SIZE"],
    `is in a row of more than ${MAX_ROW} characters: a quote inside a value is not doubled, or a value is too long; leave out columns that the mapping does not need`,
  ],
];

/** The delimiter that splits all first rows into equally many columns; of several, the most frequent one. */
function delimiterOf(start: string): string {
  const rows = countDelimiters(start);
  const [header = []] = rows;
  const scored = DELIMITERS.map((delimiter, index) => {
    const count = header[index] ?? 0;
    const isEven = rows.every((row) => row[index] === count);
    return { delimiter, score: count === 0 ? 0 : count + (isEven ? 1000 : 0) };
  });
  const best = scored.reduce((a, b) => (b.score > a.score ? b : a));
  return best.delimiter;
}

/** For each row, how often each delimiter stands outside of quotes. */
function countDelimiters(start: string): number[][] {
  const rows: number[][] = [];
  let row = DELIMITERS.map(() => 0);
  let inQuotes = false;
  for (const character of start) {
    if (character === '"') inQuotes = !inQuotes;
    if (inQuotes) continue;
    const index = (DELIMITERS as readonly string[]).indexOf(character);
    if (index !== -1) row[index] = (row[index] ?? 0) + 1;
    if (character !== "\n") continue;
    rows.push(row);
    row = DELIMITERS.map(() => 0);
    if (rows.length === SAMPLE_ROWS) return rows;
  }
  // The last row of the sample may be incomplete.
  return rows.length === 0 ? [row] : rows;
}
