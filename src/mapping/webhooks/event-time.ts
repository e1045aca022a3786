/** Reads the time of an event as the usual tools write it. */

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

/** As RFC 3339; undefined when it is not a time. A time without an offset is UTC. */
export function eventTime(value: unknown): string | undefined {
  if (typeof value === "number") return timeSince1970(value);
  if (typeof value !== "string" || value.length > 60) return undefined;
  const text = value.trim();
  if (/^\d{9,20}(?:\.\d+)?$/.test(text)) return timeSince1970(Number(text));
  const iso = ISO.exec(text);
  if (iso === null) return NAMED_MONTH.test(text) ? isoText(Date.parse(text)) : undefined;
  const [, date = "", minute = "", second = ":00", fraction, offset = "Z"] = iso;
  const exact = `${date}T${minute}${second}${fraction === undefined ? "" : `.${fraction}`}${offsetOf(offset)}`;
  return Number.isNaN(Date.parse(exact)) ? undefined : exact;
}

function offsetOf(text: string): string {
  if (/^[A-Za-z]/.test(text)) return "Z";
  const digits = text.slice(1).replace(":", "").padEnd(4, "0");
  return `${text.slice(0, 1)}${digits.slice(0, 2)}:${digits.slice(2)}`;
}

function timeSince1970(number: number): string | undefined {
  const unit = UNITS.find(([limit]) => number < limit);
  // A number that is not a time, such as 0, must not date an event to 1970.
  return unit === undefined || number < 1e8 ? undefined : isoText(Math.trunc(number * unit[1]));
}

function isoText(at: number): string | undefined {
  const instant = new Date(at);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
