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
  const { service, quota, backlog, daemon, freshness } = figures;
  const left = quota.remaining === undefined ? undefined : quota.remaining / quota.limit;
  const quotaStyle = left === undefined || left > 0.25 ? "green" : left > 0.1 ? "yellow" : "red";
  const netChanges = service.created + service.updated;
  const row = (label: string, value: string | number | undefined, note: string): string =>
    `  ${label.padEnd(LABEL_WIDTH)}${paint("bold", String(value ?? "–").padStart(NUMBER_WIDTH))}  ${paint("dim", note)}`;
  return [
    bar("the hour", figures.progress, "cyan", `${clock(figures.progress)} at the CRM`, paint),
    bar(
      "quota left",
      left ?? 0,
      quotaStyle,
      `${quota.remaining ?? "–"} of ${quota.limit} requests`,
      paint,
    ),
    "",
    row(
      "events in",
      figures.delivered,
      `of ${figures.scheduled}; ${figures.sentTwice} of them sent twice`,
    ),
    row("coalesced", figures.coalesced, "replaced by a newer state before they were sent"),
    row("unchanged", figures.unchanged, "the service has this state already: no request"),
    row("superseded", figures.superseded, "older than a known state of the record"),
    row("requests", service.requests, `${service.created} created, ${service.updated} updated`),
    row(
      "per net change",
      requestsPerNetChange(service.requests, netChanges),
      "all requests, for each change that the service accepted",
    ),
    row("answered 429", service.throttled, "as the service counts them"),
    row("dead letters", figures.deadLetters, "bad records: kept with their reason, no request"),
    row("freshness p50", atMost(freshness.p50), "from the CRM to the service, live changes"),
    row("freshness p99", atMost(freshness.p99), ""),
    row(
      "backlog",
      backlog.records,
      `records wait to be sent; ${backlog.inbox ?? "–"} events in the inbox`,
    ),
    "",
    daemon.pid === undefined
      ? `  ${paint("yellow", "the daemon is down and is being restarted")}`
      : `  ${paint("dim", `the daemon is process ${daemon.pid}; kill -9 it if you like: no change is lost`)}`,
  ];
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

/** The same in one line, for output that is not a terminal. */
export function renderLine(figures: Figures): string {
  const { service, quota, backlog, freshness, daemon } = figures;
  const netChanges = service.created + service.updated;
  return [
    clock(figures.progress),
    `events ${figures.delivered}/${figures.scheduled}`,
    `coalesced ${figures.coalesced}`,
    `unchanged ${figures.unchanged}`,
    `requests ${service.requests} (${requestsPerNetChange(service.requests, netChanges)} per net change)`,
    `quota left ${quota.remaining ?? "–"}/${quota.limit}`,
    `429s ${service.throttled}`,
    `dead letters ${figures.deadLetters ?? "–"}`,
    `fresh p50 ${atMost(freshness.p50)} p99 ${atMost(freshness.p99)}`,
    `backlog ${backlog.records ?? "–"}`,
    `daemon ${daemon.pid ?? "down"}`,
  ].join(" · ");
}
