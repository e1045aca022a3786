/** The views' template tag: every value is escaped, and shown without characters that hide or reorder text. */
import { html as escaped } from "hono/html";
import { printable } from "../../base/printable.ts";

export type Html = Exclude<ReturnType<typeof escaped>, Promise<unknown>>;

export type Value = string | number | false | undefined | Html | readonly Value[];

/** Shows no hidden characters: what a form must send back unchanged goes into an address (`pathTo`). */
export const html = (strings: TemplateStringsArray, ...values: readonly Value[]): Html =>
  // A promise comes only of a value that is one; `Value` excludes it.
  escaped(strings, ...values.map(shown)) as Html;

function shown(value: Value): unknown {
  if (typeof value === "string") return printable(value);
  return Array.isArray(value) ? (value as readonly Value[]).map(shown) : value;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** An address of the console; values of any text come back as they were, undefined ones are left out. */
export function pathTo(path: string, query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  return `${path}?${new URLSearchParams(given).toString()}`;
}

export interface Column<Row> {
  readonly heading: string;
  readonly cell: (row: Row) => Value;
  readonly isNumber?: true;
  /** Its cells hold links by which an operator acts. */
  readonly hasActs?: true;
  /** Its cells hold checkboxes. */
  readonly hasPicks?: true;
}

interface Table<Row> {
  /** Left out where a heading says it. */
  readonly caption?: Value;
  readonly rows: readonly Row[];
  /** The first one without checkboxes names the row. */
  readonly columns: readonly Column<Row>[];
}

export function table<Row>({ caption, columns, rows }: Table<Row>): Html {
  const names = columns.findIndex(({ hasPicks }) => hasPicks === undefined);
  return html`<table>
    ${
      caption !== undefined &&
      html`<caption>
        ${caption}
      </caption>`
    }
    <thead>
      <tr>
        ${columns.map(headOf)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) =>
          html`<tr>
            ${columns.map((column, n) => cellOf(column, row, n === names))}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

const headOf = <Row>({ hasPicks, heading, isNumber }: Column<Row>): Html =>
  html`<th ${isNumber ? html`scope="col" class="number"` : html`scope="col"`}>
    ${hasPicks ? html`<label>${heading} <input type="checkbox" data-all hidden /></label>` : heading}
  </th>`;

function cellOf<Row>(
  { cell, hasActs, heading, isNumber }: Column<Row>,
  row: Row,
  namesRow: boolean,
): Html {
  const label = html`data-label="${heading}"`;
  const style = isNumber ? "number" : hasActs && "decide";
  const attributes = style ? html`${label} class="${style}"` : label;
  return namesRow
    ? html`<th scope="row" ${attributes}>${cell(row)}</th>`
    : html`<td ${attributes}>${cell(row)}</td>`;
}

export const facts = (all: Readonly<Record<string, Value>>): Html =>
  html`<dl>
    ${Object.entries(all)
      .filter(([, value]) => value !== undefined && value !== false && value !== "")
      .map(
        ([term, value]) =>
          html`<dt>${term}</dt>
            <dd>${value}</dd>`,
      )}
  </dl>`;

const CLOCK = {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
} as const;

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

const RELATIVE = new Intl.RelativeTimeFormat("en");

const exact = (date: Date): string => date.toLocaleString("en-GB", CLOCK);

/**
 * The time itself, as the script says it in a sentence (`20:04 today`) or, with `exact`, to the second.
 * @param ms undefined or not a number: not known.
 */
export function moment(ms: number | undefined, unknown = "–", how?: "exact"): Html | string {
  if (ms === undefined || !Number.isFinite(ms)) return unknown;
  const date = new Date(ms);
  const at = html`datetime="${date.toISOString()}"`;
  return html`<time ${how ? html`${at} data-exact` : at}>${exact(date)}</time>`;
}

/** How long ago it was, or how soon it will be; the time itself is its title. @param at ms, or ISO 8601. */
export function ago(at: number | string | null | undefined, unknown = "–"): Html | string {
  const date = new Date(at ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return unknown;
  return html`<time datetime="${date.toISOString()}" title="${exact(date)}" data-ago
    >${relative(date.getTime() - Date.now())}</time
  >`;
}

/** @param ms negative: it is past. The script says it in the same words (page/console.js). */
function relative(ms: number): string {
  const [unit, size] = UNITS.find((one) => Math.abs(ms) >= one[1]) ?? UNITS[3];
  if (Math.abs(ms) < 5000) return "just now";
  return RELATIVE.format(Math.trunc(ms / size), unit);
}
