/** A day that stands for no date: 0000-00-00, 00.00.0000. */
const ZERO = /^(?:0{8}|0+(?:[.\-/]0+){2}|0001-01-01)(?:[T ][0:.]+Z?)?$/;

export interface DateForm {
  /** Another format, such as DD/MM/YYYY; then only this format is read. */
  readonly format?: string | undefined;
  /** The time zone of the CRM, by its name: a moment becomes the day that it is there. */
  readonly zone?: string | undefined;
}

export const isZeroDate = (text: string): boolean => ZERO.test(text);

const DAY_MS = 86_400_000;

/** A time of day, and the zone behind it. */
const TIME = String.raw`\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AP]M)?`;
const OFFSET = String.raw` ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)`;

const ISO = new RegExp(`^(\\d{4})-(\\d{2})-(\\d{2})(?:[T ]${TIME}(?:${OFFSET})?)?$`, "i");
const COMPACT = /^(\d{4})(\d{2})(\d{2})$/;
const DOTTED = new RegExp(
  String.raw`^(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4}|\d{2})(?:,? ${TIME})?$`,
  "i",
);
const WCF = /^\/Date\((-?\d+)(?:([+-])(\d{2})(\d{2}))?\)\/$/;

/**
 * A calendar date as YYYY-MM-DD, from ISO 8601 (without a zone, the time of day is cut off), milliseconds since
 * 1970, `/Date(ms)/`, YYYYMMDD, DD.MM.YYYY or DD.MM.YY.
 */
export function toDate(
  value: string | number,
  { format, zone }: DateForm = {},
): string | undefined {
  const text = String(value).trim();
  if (format !== undefined) return byFormat(text, format);
  // The first day of 1970, or a number that was never set.
  if (Number(text) === 0) return undefined;
  const moment = momentOf(text);
  if (moment !== undefined && zone !== undefined) return dayIn(zone, moment);
  const written = ISO.exec(text) ?? COMPACT.exec(text);
  if (written !== null) return date(written[1], written[2], written[3]);
  const dotted = DOTTED.exec(text);
  if (dotted !== null) return date(dotted[3], dotted[2], dotted[1]);
  if (moment === undefined) return undefined;
  const [, , sign, hours = 0, minutes = 0] = WCF.exec(text) ?? [];
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return ofInstant(moment + (sign === "-" ? -offset : offset));
}

const MOMENT = new RegExp(String.raw`^\d{4}-\d{2}-\d{2}[T ]${TIME}${OFFSET}$`, "i");

/** The moment that a value names, ms; undefined when it names a day. */
function momentOf(text: string): number | undefined {
  if (MOMENT.test(text)) {
    const ms = Date.parse(text.replace(" ", "T").replace(/ ?(?:UTC|GMT)$/i, "Z"));
    return Number.isNaN(ms) ? undefined : ms;
  }
  const wcf = WCF.exec(text);
  if (wcf !== null) return Number(wcf[1]);
  // A short number may be a year or seconds, so it must be a whole number of days.
  const ms = /^-?\d{1,15}$/.test(text) && COMPACT.exec(text) === null ? Number(text) : Number.NaN;
  return ms % DAY_MS === 0 || Math.abs(ms) >= 1e10 ? ms : undefined;
}

function dayIn(timeZone: string, ms: number): string | undefined {
  if (Number.isNaN(new Date(ms).getTime())) return undefined;
  const format = new Intl.DateTimeFormat("en-CA", { timeZone, dateStyle: "short" });
  const [year, month, day] = format.format(ms).split("-");
  return date(year, month, day);
}

/**
 * Whether the day depends on a zone that is not known: a moment in UTC that is neither midnight nor noon there.
 * Local midnight, written in UTC, is another day east of Greenwich.
 */
export function needsZone(value: string | number, { format, zone }: DateForm): boolean {
  if (format !== undefined || zone !== undefined) return false;
  const text = String(value).trim();
  if (/[+-]\d{2}:?\d{2}(?:\)\/)?$/.test(text) && !/[+-]00:?00(?:\)\/)?$/.test(text)) return false;
  const moment = momentOf(text);
  return moment !== undefined && moment % (DAY_MS / 2) !== 0;
}

function ofInstant(ms: number): string | undefined {
  const instant = new Date(ms);
  if (Number.isNaN(instant.getTime())) return undefined;
  return date(...instant.toISOString().slice(0, 10).split("-"));
}

/** Parts of a day as a format may name them; the last two can be written, and not be read. */
const SAMPLE: Readonly<Record<string, string>> = {
  YYYY: "1985",
  YY: "85",
  MM: "11",
  DD: "23",
  MMM: "Nov",
  MMMM: "November",
};

/** Whether a date that is written in this format is read by it. */
export const isDateFormat = (format: string): boolean =>
  toDate(
    format.replaceAll(/([A-Za-z])\1*/g, (part) => SAMPLE[part] ?? "10"),
    { format },
  ) === "1985-11-23";

function byFormat(text: string, format: string): string | undefined {
  const parts: string[] = [];
  const pattern = format
    .replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")
    .replace(/YYYY|YY|MM|DD/g, (part) => {
      parts.push(part.slice(0, 2));
      return DIGITS[part] ?? "(\\d{1,2})";
    });
  const match = new RegExp(`^${pattern}$`).exec(text);
  const part = (name: string) => match?.[parts.indexOf(name) + 1];
  return match === null ? undefined : date(part("YY"), part("MM"), part("DD"));
}

const DIGITS: Readonly<Record<string, string>> = { YYYY: "(\\d{4})", YY: "(\\d{2})" };

/** Of a year of two digits the latest day that is not in the future. */
function wholeYear(year: string, rest: string): string {
  if (year.length !== 2) return year;
  const now = new Date().toISOString().slice(0, 10);
  const century = Number(now.slice(0, 2)) - (year + rest > now.slice(2) ? 1 : 0);
  return `${century}${year}`;
}

function date(given = "", month = "", day = ""): string | undefined {
  const rest = `-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;
  const year = wholeYear(given, rest);
  const text = year + rest;
  const instant = new Date(`${text}T00:00:00Z`);
  if (Number.isNaN(instant.getTime()) || instant.toISOString().slice(0, 10) !== text) {
    return undefined;
  }
  return text;
}
