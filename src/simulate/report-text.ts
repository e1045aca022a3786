/** The report of a simulation for people. */
import { counted } from "../ops/counted.ts";
import { LANES } from "../event/lane.ts";
import type { Freshness, Report } from "./report.ts";

const LABEL_WIDTH = 15;
const NUMBER_WIDTH = 10;

export function reportLines(report: Report): string[] {
  const { requests, settings, freshness } = report;
  return [
    headOf(report),
    "",
    line("requests", requests.total, `at least ${requests.atLeast}: one for each record`),
    line("busiest hour", requests.mostInOneHour, `of ${settings.perHour} requests`),
    line("exhausted", `${report.exhaustedHours.toFixed(1)} h`, exhaustedNote(report)),
    "",
    `${"age".padEnd(LABEL_WIDTH)}${["p50", "mean", "p99", "max"].map((name) => name.padStart(NUMBER_WIDTH)).join("")}`,
    ageLine("all changes", freshness.all),
    ...LANES.flatMap((lane) => {
      const ages = freshness[lane];
      return ages === undefined ? [] : [ageLine(lane, ages)];
    }),
    "",
    ...shareLines(report),
    "",
    ...chartLines(report),
    "",
    ...assumptions(report),
  ];
}

const headOf = ({ events, records, from, to, settledAt }: Report): string =>
  `${counted(events.valid, "event")} of ${counted(records, "record")}, ${minute(from)} to ${minute(to)}; all on the service at ${minute(settledAt)}`;

const exhaustedNote = ({ exhaustedHours }: Report): string =>
  exhaustedHours === 0
    ? "the quota was never exhausted while changes waited"
    : "changes waited, and no request of the hour was left";

function ageLine(name: string, ages: Freshness): string {
  const { p50Seconds, meanSeconds, p99Seconds, maxSeconds } = ages;
  const cells = [p50Seconds, meanSeconds, p99Seconds, maxSeconds].map(ageText);
  return `${name.padEnd(LABEL_WIDTH)}${cells.map((cell) => cell.padStart(NUMBER_WIDTH)).join("")}`;
}

function shareLines({ events, changes }: Report): string[] {
  const all = changes.sent + changes.coalesced + changes.unchanged;
  const share = (count: number, of: number): string => percent(count / Math.max(1, of));
  const rows: [string, number, number, string][] = [
    ["sent", changes.sent, all, "the newest state of their record"],
    ["coalesced", changes.coalesced, all, "replaced by a newer state before they were sent"],
    ["unchanged", changes.unchanged, all, "the service has this state already: no request"],
    ["duplicates", events.duplicates, events.valid, "the same event came before: ignored"],
    ["out of order", events.outOfOrder, events.valid, "stand after a newer event of their record"],
  ];
  return rows.map(([name, count, of, note]) => line(name, count, `${share(count, of)}: ${note}`));
}

function chartLines({ chart, freshness }: Report): string[] {
  const waiting = chart.map((column) => column.waiting);
  const ages = chart.map((column) => column.maxAgeSeconds);
  const from = minute(chart[0]?.from ?? "");
  const to = minute(chart.at(-1)?.from ?? "");
  const gap = " ".repeat(Math.max(1, chart.length - from.length - to.length));
  return [
    `${"".padEnd(LABEL_WIDTH)}${from}${gap}${to}`,
    `${"waiting".padEnd(LABEL_WIDTH)}${sparkline(waiting)} ${counted(Math.max(...waiting), "change")}`,
    `${"age".padEnd(LABEL_WIDTH)}${sparkline(ages)} ${ageText(freshness.all.maxSeconds)}`,
  ];
}

function assumptions({ settings }: Report): string[] {
  const { perHour, burst, burstMs, latencyMs, steady } = settings;
  const pacing = steady ? ", at an even rate only" : "";
  return [
    `Quota: ${perHour} an hour, ${burst} in ${burstMs / 1000} s${pacing}; each request takes ${latencyMs} ms.`,
    "Assumed: an event arrives when it happens; a new state costs one request; nothing fails.",
  ];
}

const BARS = " ▁▂▃▄▅▆▇█";

/** One bar per value, up to the largest of them; anything above 0 is visible. */
export function sparkline(values: readonly number[]): string {
  const most = Math.max(...values);
  return values.map((value) => BARS[Math.ceil((value / (most || 1)) * 8)]).join("");
}

const line = (name: string, value: number | string, note: string): string =>
  `${name.padEnd(LABEL_WIDTH)}${String(value).padStart(NUMBER_WIDTH)}  ${note}`;

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

const minute = (iso: string): string => `${iso.slice(0, 16)}Z`;

function ageText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 600) return `${Math.round(seconds)} s`;
  return seconds < 36_000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
