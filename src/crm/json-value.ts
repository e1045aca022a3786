/** Reads JSON and its values, whose types are unknown. */
import { parseExactly } from "../event/exact-json.ts";

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Parses what a CRM sends. A text that it has cut in the middle of a character gets U+FFFD there: no
 * other try would bring the half.
 * @throws SyntaxError when it is not JSON; its message may quote the text.
 */
export function parseFromCrm(text: string): unknown {
  const value = parseExactly(text);
  return HALF.test(text) ? wellFormed(value) : value;
}

/** UTF-8 cannot hold half of a surrogate pair, an escape can. */
const HALF = /\\u[dD][89a-fA-F]/;

function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name.toWellFormed(), wellFormed(inner)]),
  );
}

/** A text, or a number as text; "" for everything else. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** Milliseconds since 1970, or an ISO text, as RFC 3339; undefined when it is no time. */
export function timeOf(value: unknown): string | undefined {
  const instant =
    typeof value === "number" || /^\d{11,14}$/.test(textOf(value))
      ? new Date(Number(value))
      : new Date(typeof value === "string" ? value : Number.NaN);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
