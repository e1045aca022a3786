/** Draws a run as SVG: one small chart for each metric, one bar for each hour. */
import type { Measured } from "./measure.ts";

const WIDTH = 860;
const HEIGHT = 90;
const LEFT = 60;
const GAP = 44;

const CHARTS = [
  { name: "events", title: "events in the hour", digits: 0 },
  { name: "waiting", title: "longest wait of a change, in hours", digits: 2 },
  { name: "rss", title: "memory of the daemon, MB", digits: 0 },
  { name: "files", title: "open files and sockets of the daemon", digits: 0 },
  { name: "keys", title: "keys in Redis", digits: 0 },
  { name: "redis", title: "memory of Redis without the list of seen events, MB", digits: 1 },
] as const;

export function chartOf(measured: readonly Measured[]): string {
  const parts = CHARTS.map((chart, row) => oneChart(measured, chart, GAP + row * (HEIGHT + GAP)));
  const height = CHARTS.length * (HEIGHT + GAP) + GAP;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH + LEFT + 20} ${height}" font-family="sans-serif" font-size="12" role="img" aria-label="A soak run: ${measured.length} hours">
<rect width="100%" height="100%" fill="white"/>
${parts.join("\n")}
<text x="${LEFT}" y="${height - 14}" fill="#555">hours</text>
</svg>
`;
}

function oneChart(
  measured: readonly Measured[],
  { digits, name, title }: (typeof CHARTS)[number],
  top: number,
): string {
  const hours = Math.max(...measured.map(({ hour }) => hour)) + 1;
  const most = Math.max(...measured.map((hour) => hour[name])) || 1;
  const step = WIDTH / hours;
  const bars = measured.map((hour) => {
    const size = (hour[name] / most) * HEIGHT;
    return `<rect x="${(LEFT + hour.hour * step).toFixed(1)}" y="${(top + HEIGHT - size).toFixed(1)}" width="${(step * 0.8).toFixed(1)}" height="${size.toFixed(1)}"/>`;
  });
  const days = Array.from({ length: Math.floor((hours - 1) / 6) + 1 }, (_, n) => n * 6);
  const labels = days.map(
    (hour) =>
      `<text x="${(LEFT + hour * step).toFixed(1)}" y="${top + HEIGHT + 14}" fill="#555">${hour}</text>`,
  );
  return `<text x="${LEFT}" y="${top - 8}" font-weight="bold">${title}</text>
<text x="${LEFT - 6}" y="${top + 10}" text-anchor="end" fill="#555">${most.toFixed(digits)}</text>
<text x="${LEFT - 6}" y="${top + HEIGHT}" text-anchor="end" fill="#555">0</text>
<g fill="#3b6ea5">${bars.join("")}</g>
${labels.join("")}`;
}
