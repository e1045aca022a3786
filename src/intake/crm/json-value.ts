/** Reads JSON and its values, whose types are unknown. */
import { isObject } from "../../core/event/problem.ts";
import { parseExactly } from "../../core/event/exact-json.ts";

export type Json = Readonly<Record<string, unknown>>;

/** What a value, which may be anything, has at a path of names. */
export const valueAt = (value: unknown, path: readonly string[]): unknown =>
  path.reduce(
    (inner, name) => (isObject(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined),
    value,
  );

/**
 * Parses what a CRM sends. A text that it has cut in the middle of a character loses the half: no other try
 * would bring the rest.
 * @throws SyntaxError when it is not JSON; its message may quote the text.
 */
export function parseFromCrm(text: string): unknown {
  const value = parseExactly(text);
  return HALF.test(text) ? wellFormed(value) : value;
}

/** UTF-8 cannot hold half of a surrogate pair, an escape can. */
const HALF = /\\u[dD][89a-fA-F]/;

const withoutHalves = (text: string): string => text.replaceAll(/\p{Cs}/gu, "");

function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return withoutHalves(value);
  if (Array.isArray(value)) return value.map(wellFormed);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [withoutHalves(name), wellFormed(inner)]),
  );
}

/** A text, or a number as text; "" for everything else. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** Smaller numbers are seconds since 1970, others milliseconds. */
const MS_FROM = 1e11;

/** JavaScript also reads `03/11/2026`, as 11 March, and `12`, as 1 December 2001. */
const ISO = /^\d{4}-\d{2}-\d{2}/;

/** An ISO text that does not say of which zone it is. */
const WITHOUT_ZONE = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)$/;

/**
 * Seconds or milliseconds since 1970, or an ISO text, as RFC 3339; undefined when it is no time, or a
 * placeholder such as 0001-01-01. CRMs write a time without a zone in UTC.
 */
export function timeOf(value: unknown): string | undefined {
  const text = textOf(value);
  const isNumber = typeof value === "number" || /^\d{9,14}$/.test(text);
  if (!isNumber && !ISO.test(text)) return undefined;
  const number = Math.abs(Number(text)) < MS_FROM ? Number(text) * 1000 : Number(text);
  const instant = new Date(isNumber ? number : text.replace(WITHOUT_ZONE, "$1T$2Z"));
  return instant.getTime() >= 0 ? instant.toISOString() : undefined;
}

/**
 * What a written time leaves open, ms: the fraction of a second, the seconds, the time of the day. Of a day an hour less: an
 * event that is dated more than a day ahead is not believed, and the CRM's clock may be ahead.
 */
const OPEN: readonly (readonly [form: RegExp, ms: number])[] = [
  [/^\d{4}-\d{2}-\d{2}$/, 82_799_999],
  [/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?!:)/, 59_999],
  [/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?![.,])|^\d{9,10}$/, 999],
];

/**
 * The last moment that a written time may mean, ISO 8601: of several changes within it, what is read is the last one, and
 * an event may have told an earlier one more exactly. @param read gives its first moment
 */
export function lastMomentOf(value: unknown, read = timeOf): string | undefined {
  const first = read(value);
  const open = OPEN.find(([form]) => form.test(textOf(value)))?.[1] ?? 0;
  return first === undefined ? undefined : new Date(Date.parse(first) + open).toISOString();
}
