/** The live table, and the same figures in one line. */
import { requestsPerNetChange } from "./figures.ts";
import type { Figures } from "./figures.ts";

type Style = "bold" | "dim" | "green" | "yellow" | "red" | "cyan";
/** Colours a text, or returns it unchanged. */
export type Paint = (style: Style, text: string) => string;

const BAR_WIDTH = 40;
const LABEL_WIDTH = 22;
const NUMBER_WIDTH = 7;

export function renderTable(figures: Figures, paint: Paint): string[] {
  const { daemon, progress, quota } = figures;
  const left = quota.remaining === undefined ? undefined : quota.remaining / quota.limit;
  const quotaStyle = left === undefined || left > 0.25 ? "green" : left > 0.1 ? "yellow" : "red";
  const quotaNote = `${quota.remaining ?? "–"} of ${quota.limit} requests`;
  return [
    bar("the hour", progress, "cyan", `${clock(progress)} at the CRM`, paint),
    bar("quota left", left ?? 0, quotaStyle, quotaNote, paint),
    "",
    ...rowsOf(figures).map(
      ([label, value, note]) =>
        `  ${label.padEnd(LABEL_WIDTH)}${paint("bold", value.padStart(NUMBER_WIDTH))}  ${paint("dim", note)}`,
    ),
    "",
    daemon.pid === undefined
      ? `  ${paint("yellow", "the daemon is down and is being restarted")}`
      : `  ${paint("dim", `the daemon is process ${daemon.pid}; kill -9 it if you like: no change is lost`)}`,
  ];
}

/** The same in one line, for output that is not a terminal. */
export function renderLine(figures: Figures): string {
  const { daemon, progress, quota } = figures;
  return [
    clock(progress),
    ...rowsOf(figures).map(([label, value]) => `${label}: ${value}`),
    `quota left: ${quota.remaining ?? "–"}`,
    `daemon: ${daemon.pid ?? "down"}`,
  ].join(" · ");
}

function rowsOf(figures: Figures): [label: string, value: string, note: string][] {
  const { backlog, freshness, service } = figures;
  const perChange = requestsPerNetChange(service.requests, service.created + service.updated);
  const rows: [label: string, value: string | number | undefined, note: string][] = [
    [
      "events in",
      figures.delivered,
      `of ${figures.scheduled}; ${figures.sentTwice} of them sent twice`,
    ],
    ["coalesced", figures.coalesced, "replaced by a newer state before they were sent"],
    ["unchanged", figures.unchanged, "the service has this state already: no request"],
    ["superseded", figures.superseded, "older than a known state of the record"],
    ["requests", service.requests, `${service.created} created, ${service.updated} updated`],
    ["per net change", perChange, "all requests, for each change that the service accepted"],
    ["answered 429", service.throttled, "as the service counts them"],
    ["dead letters", figures.deadLetters, "bad records: kept with their reason, no request"],
    ["freshness p50", atMost(freshness.p50), "from the CRM to the service, live changes"],
    ["freshness p99", atMost(freshness.p99), ""],
    [
      "backlog",
      backlog.records,
      `records wait to be sent; ${backlog.inbox ?? "–"} events in the inbox`,
    ],
  ];
  return rows.map(([label, value, note]) => [label, String(value ?? "–"), note]);
}

function bar(label: string, share: number, style: Style, note: string, paint: Paint): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH);
  const drawn = paint(style, "█".repeat(full)) + paint("dim", "░".repeat(BAR_WIDTH - full));
  return `  ${label.padEnd(12)}${drawn}  ${note}`;
}

/** The hour begins at 09:00. */
function clock(progress: number): string {
  const seconds = Math.floor(progress * 3600);
  const [hours, minutes] = [9 + Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return [hours, minutes, seconds % 60].map((part) => String(part).padStart(2, "0")).join(":");
}

const atMost = (seconds: number | undefined): string =>
  seconds === undefined ? "–" : Number.isFinite(seconds) ? `≤ ${seconds} s` : "> 1 day";
