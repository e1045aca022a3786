/** Reads the time of an event as the usual tools write it. */
import { localTimeIn } from "../schema-parts.ts";

const ISO =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(?:[.,](\d{1,9})\d*)? ?(Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?$/;

/** `Fri, 20 Nov 2026 09:30:11 GMT`, as HTTP and mail write it. */
const NAMED_MONTH =
  /^(?:[A-Za-z]{3}, )?\d{1,2} [A-Za-z]{3} \d{4} \d{2}:\d{2}:\d{2} (?:GMT|UTC|Z|[+-]\d{4})$/;

/** The units of a time since 1970, each by the largest number that is read as one, with its ms. */
const UNITS: readonly (readonly [limit: number, ms: number])[] = [
  [1e11, 1000],
  [1e14, 1],
  [1e17, 1e-3],
  [1e20, 1e-6],
];

/**
 * As RFC 3339; undefined when it is not a time. A local time that occurs twice, in autumn, is the end of that span:
 * no change counts as older than it is, and of two the one that arrives later is newer.
 * @param zone of times without an offset, by its name; undefined: UTC.
 */
export function eventTime(value: unknown, zone?: string): string | undefined {
  if (typeof value === "number") return timeSince1970(value);
  if (typeof value !== "string" || value.length > 60) return undefined;
  const text = value.trim();
  if (/^(?:0|\d{9,20}(?:\.\d+)?)$/.test(text)) return timeSince1970(Number(text));
  const iso = ISO.exec(text);
  if (iso === null) return NAMED_MONTH.test(text) ? isoText(Date.parse(text)) : undefined;
  const [, date = "", minute = "", second = ":00", fraction, offset] = iso;
  const exact = `${date}T${minute}${second}${fraction === undefined ? "" : `.${fraction}`}`;
  const utc = Date.parse(`${exact}Z`);
  if (Number.isNaN(utc)) return undefined;
  if (offset !== undefined || zone === undefined) {
    const told = `${exact}${offsetOf(offset ?? "Z")}`;
    return Number.isNaN(Date.parse(told)) ? undefined : told;
  }
  const local = localTimeIn(zone, utc);
  return local.kind === "twice" ? isoText(local.untilMs) : exact + offsetText(local.offsetMs);
}

function offsetText(ms: number): string {
  const minutes = Math.abs(ms) / 60_000;
  const [hour, minute] = [Math.floor(minutes / 60), minutes % 60];
  return `${ms < 0 ? "-" : "+"}${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;
}

function offsetOf(text: string): string {
  if (/^[A-Za-z]/.test(text)) return "Z";
  const digits = text.slice(1).replace(":", "").padEnd(4, "0");
  return `${text.slice(0, 1)}${digits.slice(0, 2)}:${digits.slice(2)}`;
}

function timeSince1970(number: number): string | undefined {
  const unit = UNITS.find(([limit]) => number < limit);
  // 0 stands for no time; another number that is not one must not date an event to 1970.
  if (number === 0) return isoText(0);
  return unit === undefined || number < 1e8 ? undefined : isoText(Math.trunc(number * unit[1]));
}

function isoText(at: number): string | undefined {
  const instant = new Date(at);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
