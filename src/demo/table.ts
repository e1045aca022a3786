/** The live table and the plain line, as text. */
import { requestsPerNetChange } from "./figures.ts";
import type { Figures } from "./figures.ts";

type Style = "bold" | "dim" | "green" | "yellow" | "red" | "cyan";
/** Colours a text, or leaves it as it is. */
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
      `of ${figures.planned}; ${figures.sentTwice} of them sent twice`,
    ),
    row("coalesced", figures.coalesced, "replaced by a newer state before their turn came"),
    row("unchanged", figures.unchanged, "already so on the service: no request"),
    row("came too late", figures.superseded, "a newer state of the record was known"),
    row("requests", service.requests, `${service.created} created, ${service.updated} updated`),
    row(
      "per net change",
      requestsPerNetChange(service.requests, netChanges),
      "all requests, for each change that the service took",
    ),
    row("answered 429", service.throttled, "told by the service"),
    row("dead letters", figures.deadLetters, "bad records: named, kept, no request spent"),
    row("freshness p50", atMost(freshness.p50), "from the CRM to the service, live changes"),
    row("freshness p99", atMost(freshness.p99), ""),
    row(
      "backlog",
      backlog.records,
      `records wait for their turn; ${backlog.inbox ?? "–"} events in the inbox`,
    ),
    "",
    daemon.pid === undefined
      ? `  ${paint("yellow", "the daemon is down and is being started again")}`
      : `  ${paint("dim", `the daemon is process ${daemon.pid}; kill -9 it if you like: nothing gets lost`)}`,
  ];
}

function bar(label: string, share: number, style: Style, note: string, paint: Paint): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH);
  const drawn = paint(style, "█".repeat(full)) + paint("dim", "░".repeat(BAR_WIDTH - full));
  return `  ${label.padEnd(12)}${drawn}  ${note}`;
}

/** The hour begins at nine. */
function clock(progress: number): string {
  const seconds = Math.floor(progress * 3600);
  const [hours, minutes] = [9 + Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return [hours, minutes, seconds % 60].map((part) => String(part).padStart(2, "0")).join(":");
}

const atMost = (seconds: number | undefined): string =>
  seconds === undefined ? "–" : Number.isFinite(seconds) ? `≤ ${seconds} s` : "> 1 day";

/** The same without a terminal, in one line. */
export function renderLine(figures: Figures): string {
  const { service, quota, backlog, freshness, daemon } = figures;
  const netChanges = service.created + service.updated;
  return [
    clock(figures.progress),
    `events ${figures.delivered}/${figures.planned}`,
    `coalesced ${figures.coalesced}`,
    `unchanged ${figures.unchanged}`,
    `requests ${service.requests} (${requestsPerNetChange(service.requests, netChanges)} per net change)`,
    `quota left ${quota.remaining ?? "–"}/${quota.limit}`,
    `429s ${service.throttled}`,
    `dead letters ${figures.deadLetters}`,
    `fresh p50 ${atMost(freshness.p50)} p99 ${atMost(freshness.p99)}`,
    `backlog ${backlog.records ?? "–"}`,
    `daemon ${daemon.pid ?? "down"}`,
  ].join(" · ");
}
