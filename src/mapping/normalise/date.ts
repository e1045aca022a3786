/** Earlier years are placeholders for "no date" (0001-01-01). */
const FIRST_YEAR = 1000;

const DAY_MS = 86_400_000;

const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?$/;
const COMPACT = /^(\d{4})(\d{2})(\d{2})$/;
const DOTTED = /^(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})$/;
const WCF = /^\/Date\((-?\d+)(?:([+-])(\d{2})(\d{2}))?\)\/$/;

/**
 * A calendar date as YYYY-MM-DD, from ISO 8601 (the time of day is cut off, without any shift
 * between time zones), milliseconds since 1970, `/Date(ms)/`, YYYYMMDD or DD.MM.YYYY.
 * @param format another format, such as DD/MM/YYYY; then only this format is read.
 */
export function toDate(value: string | number, format?: string): string | undefined {
  const text = String(value).trim();
  if (format !== undefined) return byFormat(text, format);
  const written = ISO.exec(text) ?? COMPACT.exec(text);
  if (written !== null) return date(written[1], written[2], written[3]);
  const dotted = DOTTED.exec(text);
  if (dotted !== null) return date(dotted[3], dotted[2], dotted[1]);
  const wcf = WCF.exec(text);
  if (wcf !== null) {
    const offset = (Number(wcf[3] ?? 0) * 60 + Number(wcf[4] ?? 0)) * 60_000;
    return ofInstant(Number(wcf[1]) + (wcf[2] === "-" ? -offset : offset));
  }
  return /^-?\d{1,15}$/.test(text) ? ofMilliseconds(Number(text)) : undefined;
}

/** A short number may be a year or seconds, so it must be a whole number of days. */
function ofMilliseconds(ms: number): string | undefined {
  return ms % DAY_MS === 0 || Math.abs(ms) >= 1e10 ? ofInstant(ms) : undefined;
}

function ofInstant(ms: number): string | undefined {
  const instant = new Date(ms);
  if (Number.isNaN(instant.getTime())) return undefined;
  return date(
    String(instant.getUTCFullYear()),
    String(instant.getUTCMonth() + 1),
    String(instant.getUTCDate()),
  );
}

export const DATE_FORMAT = /^(?=.*YYYY)(?=.*MM)(?=.*DD)[YMD](?:[YMD]|[^\w])*$/;

function byFormat(text: string, format: string): string | undefined {
  const parts: string[] = [];
  const pattern = format.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&").replace(/YYYY|MM|DD/g, (part) => {
    parts.push(part);
    return part === "YYYY" ? "(\\d{4})" : "(\\d{1,2})";
  });
  const match = new RegExp(`^${pattern}$`).exec(text);
  const part = (name: string) => match?.[parts.indexOf(name) + 1];
  return match === null ? undefined : date(part("YYYY"), part("MM"), part("DD"));
}

function date(year = "", month = "", day = ""): string | undefined {
  const text = `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;
  const instant = new Date(`${text}T00:00:00Z`);
  if (Number.isNaN(instant.getTime()) || instant.toISOString().slice(0, 10) !== text) {
    return undefined;
  }
  return Number(year) < FIRST_YEAR ? undefined : text;
}
