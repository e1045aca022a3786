/** Reads values of parsed JSON, whose types are unknown. */

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

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
