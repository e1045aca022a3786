/** Records in CSV: the first row names the fields, the delimiter is found out. */
import { Readable, pipeline } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { UserError } from "../ops/user-error.ts";
import type { Item } from "./item.ts";

const DELIMITERS = [",", ";", "\t", "|"] as const;

/** So many rows tell the delimiter. */
const SAMPLE_ROWS = 20;

/** A row of CSV has no more characters, so that a missing quote does not swallow the file. */
const MAX_ROW = 1_000_000;

/** What a report writes below its rows, in the first cell. */
const FOOTER =
  /^(?:\(?\d+ (?:rows?|records?|zeilen|datensätze|lignes|righe|filas|registros|rijen|linhas)\b|confidential information|copyright |© |(?:(?:grand |sub-?|eind)?tota(?:a?l|les?|is)s?|summe|somme|suma|soma|anzahl|aantal|nombre d[e']|generated (?:by|on|at))\b|gesamt|records?:|erstellt (?:am|von) |\*+ ?end of|end of (?:report|file)|ende de[rs] |fin d[ue] )/i;

/** The same with numbers in other cells: nothing but the word. */
const SUM =
  /^(?:(?:grand |sub-?|eind)?tota(?:a?l|les?|is)(?: g[eé]n[eé]ral| geral| complessivo)?|gesamt(?:summe|ergebnis)?|summe|somme|suma|soma|anzahl|count|aantal|nombre)\s*:?$/i;
const NUMBER = /^[\d.,'’\s%€$-]*$/;

/** Rows with nothing but a first cell that are held back: they may belong to the footer. */
const MOST_LONE = 20;

/**
 * @param start the beginning of the text, which tells the delimiter.
 * @param onSkipped called for each row that is no record: only delimiters, or a report's footer
 */
export async function* readCsv(
  file: string,
  start: string,
  texts: AsyncIterable<string>,
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
  let row = 0;
  let hasRows = false;
  let lone: (readonly [row: number, cells: string[]])[] = [];
  function* records(rows: typeof lone, isFooter = false): Generator<Item> {
    for (const [number, cells] of rows) {
      if (isFooter || isNoRecord(cells, columns)) onSkipped();
      else {
        const value = recordOf(file, number, columns, cells);
        yield { place: `${file}, row ${number}`, value, ...(header && { header }) };
      }
    }
  }
  try {
    for await (const cells of parser as AsyncIterable<string[]>) {
      // An empty line counts, as in a spreadsheet.
      row += 1;
      if (cells.length === 1 && cells[0] === "") continue;
      if (columns.length === 0) {
        columns = columnsOf(file, cells);
        header = nested(columns.filter((name) => name !== "").map((name) => [name, name]));
        continue;
      }
      hasRows = true;
      if (columns.length > 1 && isLone(cells) && lone.length < MOST_LONE) {
        lone.push([row, cells]);
      } else {
        // Another row follows, so these were no footer.
        yield* records([...lone, [row, cells]]);
        lone = [];
      }
    }
    const hasFooter = lone.some(([, [first = ""]]) => FOOTER.test(cellOf(first)));
    yield* records(lone, hasFooter);
  } catch (error) {
    throw errorOf(file, error as Error);
  }
  if (columns.length > 0 && !hasRows)
    throw new UserError(`${file} has a row of names and no record`);
}

/** Delimiters, dashes or the names of the columns alone, a footer, a row of sums. */
function isNoRecord(cells: readonly string[], columns: Columns): boolean {
  const [first = "", ...others] = cells;
  const below = isLone(cells) ? FOOTER : SUM;
  return (
    !cells.some((cell) => /[\p{L}\p{N}]/u.test(cell)) ||
    cells.every((cell, index) => cellOf(cell) === columns[index]) ||
    (below.test(cellOf(first)) && others.every((cell) => NUMBER.test(cell)))
  );
}

const isLone = ([first = "", ...others]: readonly string[]): boolean =>
  cellOf(first) !== "" && others.every((cell) => cell.trim() === "");

/** A byte order mark stands in the middle where files were put together. */
const cellOf = (cell: string): string => cell.replaceAll(/[\u200b\u2060\ufeff\u00ad]/g, "").trim();

/** Names of the columns; "" for one that has none. */
type Columns = readonly string[];

function columnsOf(file: string, cells: readonly string[]): Columns {
  const names = cells.map(cellOf);
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
      `${file}, row ${row} does not have as many columns as the first row: the file is cut off, or its columns are shifted`,
    );
  }
  const fields: [string, string][] = [];
  for (const [index, value] of cells.entries()) {
    if (value === "") continue;
    const name = columns[index] ?? "";
    if (name === "") {
      throw new UserError(
        `${file}, row ${row} has a value in column ${index + 1}, which has no name: the columns are shifted, or the first row is a title; it must name the columns`,
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
