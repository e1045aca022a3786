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
  /** Left out where a heading says it. */
  readonly caption?: Value;
  readonly rows: readonly Row[];
  /** The first one names the row. */
  readonly columns: readonly Column<Row>[];
}

export const table = <Row>({ caption, columns, rows }: Table<Row>): Html =>
  html`<table>
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
  const style = isNumber ? "number" : hasActs && "decide";
  const attributes = style ? html`${label} class="${style}"` : label;
  return namesRow
    ? html`<th scope="row" ${attributes}>${cell(row)}</th>`
    : html`<td ${attributes}>${cell(row)}</td>`;
}
