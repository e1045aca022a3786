/** Small charts, drawn here: pages have no script for them. What they show stands beside them in words, too. */
import { html, type Html } from "./html.ts";

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

/** @param parts how much, and its colour; side by side. */
export function barFigure(
  parts: readonly (readonly [count: number, colour: string])[],
  whole: number,
  label: string,
): Html {
  let from = 0;
  const drawn = parts.map(([count, colour]) => {
    const width = Math.round(WIDTH * Math.min(1, count / Math.max(1, whole)));
    from += width;
    return rect(colour, from - width, 0, width, BAR);
  });
  return svg(BAR, label, [rect("left", 0, 0, WIDTH, BAR), ...drawn]);
}

/** One column each, the present one at the right. */
export function columnsFigure(counts: readonly number[], colour: string, label: string): Html {
  const most = Math.max(1, ...counts);
  const step = WIDTH / counts.length;
  const drawn = counts.map((count, n) => {
    const height = count === 0 ? 0 : Math.max(2, Math.round((CHART * count) / most));
    return rect(colour, n * step + 1, CHART - height, step - 2, height);
  });
  return svg(CHART, label, [rect("left", 0, CHART - 1, WIDTH, 1), ...drawn]);
}
