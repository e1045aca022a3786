/** Small charts, drawn here: pages have no script for them. What they show stands beside them in words, too. */
import { html, type Html } from "./html.ts";

const WIDTH = 600;
const BAR = 12;
const CHART = 48;

/** @param parts how much, and its colour; side by side. */
export function barFigure(
  parts: readonly (readonly [count: number, colour: string])[],
  whole: number,
  label: string,
): Html {
  let from = 0;
  const drawn = parts.map(([count, colour]) => {
    const width = whole <= 0 ? 0 : Math.round(WIDTH * Math.min(1, count / whole));
    from += width;
    return html`<rect
      class="${colour}"
      x="${from - width}"
      width="${width}"
      height="${BAR}"
    ></rect>`;
  });
  return html`<svg
    role="img"
    aria-label="${label}"
    viewBox="0 0 ${WIDTH} ${BAR}"
    height="${BAR}"
    preserveAspectRatio="none"
  >
    <rect class="left" width="${WIDTH}" height="${BAR}"></rect>
    ${drawn}
  </svg>`;
}

/** One column each, the present one at the right. */
export function columnsFigure(counts: readonly number[], colour: string, label: string): Html {
  const most = Math.max(1, ...counts);
  const step = WIDTH / counts.length;
  return html`<svg
    role="img"
    aria-label="${label}"
    viewBox="0 0 ${WIDTH} ${CHART}"
    height="${CHART}"
    preserveAspectRatio="none"
  >
    ${counts.map((count, n) => {
      const height = count === 0 ? 0 : Math.max(2, Math.round((CHART * count) / most));
      return (
        height > 0 &&
        html`<rect
          class="${colour}"
          x="${n * step + 1}"
          y="${CHART - height}"
          width="${step - 2}"
          height="${height}"
        ></rect>`
      );
    })}
    <line class="axis" x1="0" x2="${WIDTH}" y1="${CHART}" y2="${CHART}"></line>
  </svg>`;
}
