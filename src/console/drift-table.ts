/** A table of differences between the CRM and the service, a row for each kind. */
import { DRIFT, type DriftKind } from "../sync/drift.ts";
import { html, type Html } from "./html.ts";

export interface DriftTable {
  readonly caption: string;
  readonly kinds: readonly DriftKind[];
  /** Heading → number of each kind. */
  readonly columns: Readonly<Record<string, (kind: DriftKind) => number>>;
}

export function driftTable({ caption, columns, kinds }: DriftTable): Html {
  const numbers = Object.entries(columns);
  return html`<table>
    <caption>
      ${caption}
    </caption>
    <thead>
      <tr>
        <th scope="col">Kind</th>
        <th scope="col">Meaning</th>
        ${numbers.map(([heading]) => html`<th scope="col" class="number">${heading}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${kinds.map(
        (kind) =>
          html`<tr>
            <th scope="row" data-label="Kind">${kind}</th>
            <td data-label="Meaning">${DRIFT[kind]}</td>
            ${numbers.map(
              ([heading, numberOf]) =>
                html`<td data-label="${heading}" class="number">${numberOf(kind)}</td>`,
            )}
          </tr>`,
      )}
    </tbody>
  </table>`;
}
