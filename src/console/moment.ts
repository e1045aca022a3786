/** Times, as one reads them; the script shows them by the reader's clock. Without scripts they are in UTC. */
import { html, type Html } from "./html.ts";

const CLOCK = {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
} as const;

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

const RELATIVE = new Intl.RelativeTimeFormat("en");

const exact = (date: Date): string => date.toLocaleString("en-GB", CLOCK);

/** The time itself. @param ms undefined or not a number: not known. */
export function moment(ms: number | undefined, unknown = "–"): Html | string {
  if (ms === undefined || !Number.isFinite(ms)) return unknown;
  const date = new Date(ms);
  return html`<time datetime="${date.toISOString()}">${exact(date)}</time>`;
}

/** How long ago it was, or how soon it will be; the time itself is its title. @param at ms, or ISO 8601. */
export function ago(at: number | string | null | undefined, unknown = "–"): Html | string {
  const date = new Date(at ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return unknown;
  return html`<time datetime="${date.toISOString()}" title="${exact(date)}" data-ago
    >${relative(date.getTime() - Date.now())}</time
  >`;
}

/** @param ms negative: it is past. The script says it in the same words (page/console.js). */
function relative(ms: number): string {
  const [unit, size] = UNITS.find((one) => Math.abs(ms) >= one[1]) ?? UNITS[3];
  if (Math.abs(ms) < 5000) return "just now";
  return RELATIVE.format(Math.trunc(ms / size), unit);
}
