/** Times: the script shows them by the reader's clock. */
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

/** @param ms undefined or not a number: not known. */
export function moment(ms: number | undefined, unknown = "–"): Html | string {
  if (ms === undefined || !Number.isFinite(ms)) return unknown;
  const date = new Date(ms);
  return html`<time datetime="${date.toISOString()}">${date.toLocaleString("en-GB", CLOCK)}</time>`;
}

/** @param iso null: not known. */
export const momentOf = (iso: string | null): Html | string =>
  moment(iso === null ? undefined : Date.parse(iso));
