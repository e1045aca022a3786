/** Charts: each has a scale, the value of each part on hover, and its numbers as text or as a table. */
import { duration } from "../../operate/status/clock-time.ts";
import { html, table, type Html } from "./html.ts";

const WIDTH = 600;
const BAR = 12;
const CHART = 48;

const svg = (height: number, label: string, drawn: Html | Html[]): Html =>
  html`<svg
    role="img"
    aria-label="${label}"
    viewBox="0 0 ${WIDTH} ${height}"
    height="${height}"
    preserveAspectRatio="none"
  >
    ${drawn}
  </svg>`;

const rect = (colour: string, x: number, y: number, width: number, height: number): Html =>
  html`<rect class="${colour}" x="${x}" y="${y}" width="${width}" height="${height}"></rect>`;

const titled = (title: string, drawn: Html | Html[]): Html =>
  html`<g><title>${title}</title>${drawn}</g>`;

const axis = (from: string | number, to: string | number): Html =>
  html`<p class="axis" aria-hidden="true"><span>${from}</span><span>${to}</span></p>`;

export interface Part {
  readonly count: number;
  readonly colour: string;
  /** What the count is of: stands after it. */
  readonly what: string;
}

/** The parts of a whole, side by side; below it what each colour is. */
export function barFigure(parts: readonly Part[], whole: number): Html {
  const shown = parts.filter(({ count }) => count > 0);
  const label = shown.map(({ count, what }) => `${count} ${what}`).join(", ") || "nothing";
  let from = 0;
  const drawn = shown.map(({ colour, count, what }) => {
    const width = Math.round(WIDTH * Math.min(1, count / Math.max(1, whole)));
    from += width;
    return titled(`${count} ${what}`, rect(colour, from - width, 0, width, BAR));
  });
  return html`${svg(BAR, `${label}; of ${whole}`, [rect("left", 0, 0, WIDTH, BAR), ...drawn])}${axis(0, whole)}
    <p class="legend">
      ${shown.map(({ colour, count, what }) => html`<span><i class="${colour}"></i>${count} ${what}</span> `)}
    </p>`;
}

interface Columns {
  readonly id: string;
  /** What is counted: stands after a number. */
  readonly what: string;
  readonly colour: string;
  /** The time of all columns, ms. */
  readonly spanMs: number;
}

/** One column for each part of a time that ends now, the present one at the right. */
export function columnsFigure(counts: readonly number[], about: Columns): Html {
  const { colour, id, spanMs, what } = about;
  const most = Math.max(1, ...counts);
  const step = WIDTH / counts.length;
  const partMs = spanMs / counts.length;
  const columns = counts
    .map((count, n) => {
      const ago = (counts.length - n) * partMs;
      return { count, n, when: `${duration(ago - partMs)} to ${duration(ago)} ago` };
    })
    .filter(({ count }) => count > 0);
  const drawn = columns.map(({ count, n, when }) => {
    const height = Math.max(2, Math.round((CHART * count) / most));
    return titled(`${count} ${what}, ${when}`, [
      // A low column can be pointed at, too.
      rect("point", n * step, 0, step, CHART),
      rect(colour, n * step + 1, CHART - height, step - 2, height),
    ]);
  });
  const label = `${what}, one column for ${duration(partMs)}; at most ${Math.max(0, ...counts)}`;
  return html`<div class="columns">
      <p class="scale" aria-hidden="true"><span>${most}</span><span>0</span></p>
      ${svg(CHART, label, [rect("left", 0, 0, WIDTH, 1), rect("left", 0, CHART - 1, WIDTH, 1), ...drawn])}
      ${axis(`${duration(spanMs)} ago`, "now")}
    </div>
    ${
      columns.length > 0 &&
      html`<details id="${id}">
        <summary>As a table</summary>
        ${table({
          rows: columns.toReversed(),
          columns: [
            { heading: "When", cell: ({ when }) => when },
            { heading: what, isNumber: true, cell: ({ count }) => count },
          ],
        })}
      </details>`
    }`;
}
