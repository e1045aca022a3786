/** The quota of the hour as a picture, and in words. */
import type { Readings } from "../status/readings.ts";
import { html, type Html } from "./html.ts";
import { moment } from "./moment.ts";

const WIDTH = 600;
const BAR = 28;
const CHART = 64;
const GAP = 14;
const MINUTES = 60;

/** Outcomes of changes that ended with a write at the service. */
const WRITTEN = ["created", "updated"];

/** @param hourMs length of the hour window. */
export function quotaFigure(readings: Readings, hourMs: number): Html {
  const { limit, remaining, pacing, resetAt, allReturnedAt, until } = readings.quota;
  const spent = Math.max(0, limit - remaining);
  const text = `${spent} of ${limit} requests of this hour are spent, ${remaining} are left`;
  const height = BAR + GAP + CHART;
  return html`<figure>
    <svg
      role="img"
      aria-label="${text}. Below: changes written in each sixtieth of the last hour."
      viewBox="0 0 ${WIDTH} ${height}"
      class="quota"
    >
      <rect class="left" width="${WIDTH}" height="${BAR}" rx="4"></rect>
      <rect class="spent" width="${share(spent, limit)}" height="${BAR}" rx="4"></rect>
      ${columns(readings, hourMs / MINUTES)}
      <line class="axis" x1="0" x2="${WIDTH}" y1="${height}" y2="${height}"></line>
    </svg>
    <figcaption>
      ${text}.
      ${
        spent > 0
          ? html`The next one returns at ${moment(resetAt)}, all of them by
            ${moment(allReturnedAt)}. `
          : ""
      }Pacing:
      ${pacing}.${until !== undefined && html` <strong>Stopped until ${moment(until)}.</strong>`}
      Below the bar: changes written in each sixtieth of the last hour.
    </figcaption>
  </figure>`;
}

const share = (part: number, whole: number): number =>
  whole <= 0 ? 0 : Math.round(WIDTH * Math.min(1, part / whole));

/** One column for each sixtieth of the hour, the present one at the right. */
function columns({ minutes, now }: Readings, sliceMs: number): Html[] {
  const counts = minutes.map(({ since, counts }) => ({
    slot: MINUTES - 1 - Math.floor((now - since) / sliceMs),
    written: WRITTEN.reduce((sum, name) => sum + (counts[name] ?? 0), 0),
  }));
  const most = Math.max(1, ...counts.map(({ written }) => written));
  const step = WIDTH / MINUTES;
  return counts
    .filter(({ slot, written }) => slot >= 0 && written > 0)
    .map(({ slot, written }) => {
      const height = Math.max(2, Math.round((CHART * written) / most));
      const y = BAR + GAP + CHART - height;
      return html`<rect
        class="written"
        x="${slot * step + 1}"
        y="${y}"
        width="${step - 2}"
        height="${height}"
      ></rect>`;
    });
}
