/** A table: each column names its heading once, for its head and for its cells on a narrow screen. */
import { html, type Html, type Value } from "./html.ts";

export interface Column<Row> {
  readonly heading: string;
  readonly cell: (row: Row) => Value;
  readonly isNumber?: true;
  /** Its cells hold links by which an operator acts. */
  readonly hasActs?: true;
}

interface Table<Row> {
  readonly caption: Value;
  readonly rows: readonly Row[];
  /** The first one names the row. */
  readonly columns: readonly Column<Row>[];
  readonly isNarrow?: true;
}

export const table = <Row>({ caption, columns, isNarrow, rows }: Table<Row>): Html =>
  html`<table${isNarrow && html` class="narrow"`}>
    <caption>
      ${caption}
    </caption>
    <thead>
      <tr>
        ${columns.map(headOf)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) =>
          html`<tr>
            ${columns.map((column, n) => cellOf(column, row, n === 0))}
          </tr>`,
      )}
    </tbody>
  </table>`;

const headOf = <Row>({ heading, isNumber }: Column<Row>): Html =>
  html`<th ${isNumber ? html`scope="col" class="number"` : html`scope="col"`}>${heading}</th>`;

function cellOf<Row>(
  { cell, hasActs, heading, isNumber }: Column<Row>,
  row: Row,
  namesRow: boolean,
): Html {
  const label = html`data-label="${heading}"`;
  const style = isNumber ? "number" : hasActs && "acts";
  const attributes = style ? html`${label} class="${style}"` : label;
  return namesRow
    ? html`<th scope="row" ${attributes}>${cell(row)}</th>`
    : html`<td ${attributes}>${cell(row)}</td>`;
}
