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
    row("age", ["p50", "mean", "p99", "max"]),
    ageLine("all changes", freshness.all),
    ...LANES.flatMap((lane) => {
      const ages = freshness[lane];
      return ages === undefined ? [] : [ageLine(lane, ages)];
    }),
    "",
    ...shareLines(report),
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

const ageLine = (name: string, ages: Freshness): string =>
  row(name, [ages.p50Seconds, ages.meanSeconds, ages.p99Seconds, ages.maxSeconds].map(ageText));

function shareLines({ events, changes }: Report): string[] {
  const { coalesced, sent, unchanged } = changes;
  const share = (name: string, count: number, of: number, note: string): string =>
    line(name, count, `${((100 * count) / Math.max(1, of)).toFixed(1)} %: ${note}`);
  const all = sent + coalesced + unchanged;
  return [
    share("sent", sent, all, "the newest state of their record"),
    share("coalesced", coalesced, all, "replaced by a newer state before they were sent"),
    share("unchanged", unchanged, all, "the service has this state already: no request"),
    share("duplicates", events.duplicates, events.valid, "the same event came before: ignored"),
    share(
      "out of order",
      events.outOfOrder,
      events.valid,
      "stand after a newer event of their record",
    ),
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

const line = (name: string, value: number | string, note: string): string =>
  `${row(name, [value])}  ${note}`;

const row = (name: string, cells: readonly (number | string)[]): string =>
  name.padEnd(LABEL_WIDTH) + cells.map((cell) => String(cell).padStart(NUMBER_WIDTH)).join("");

const minute = (iso: string): string => `${iso.slice(0, 16)}Z`;

function ageText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 600) return `${Math.round(seconds)} s`;
  return seconds < 36_000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
