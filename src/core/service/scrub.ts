/** Removes personal data and secrets from the service's error texts. */
import { cut } from "../service-spec/characters.ts";
import * as lists from "../service-spec/value-lists.ts";

const MAX_LENGTH = 300;

/** A longer value is recognised by this many characters at its beginning. */
const LONG = 100;

/** Values from the spec's lists are not personal data, and error texts need them to be readable. */
const PUBLIC = new Set<unknown>(
  Object.values(lists).flatMap((list) =>
    typeof list === "string"
      ? [list]
      : Array.isArray(list)
        ? (list as readonly string[])
        : Object.values(list).flat(),
  ),
);

/**
 * The text without control characters, URLs, secrets and values of the payload, cut to 300
 * characters for log lines and dead letters.
 */
export function scrub(text: string, payload: object, secrets: readonly string[]): string {
  let clean = cut(text, 10 * MAX_LENGTH).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
  for (const secret of secrets) if (secret !== "") clean = clean.replaceAll(secret, "[secret]");
  clean = clean.replace(/\bhttps?:\/\/\S+/gi, "[address]");
  const values = [...strings(payload)].filter((value) => value.length > 1 && !PUBLIC.has(value));
  for (const value of values.sort((a, b) => b.length - a.length)) {
    clean = clean.replace(patternOf(value), "[value]");
  }
  return clean.length > MAX_LENGTH ? `${cut(clean, MAX_LENGTH - 1)}…` : clean.trim();
}

/**
 * Services change the case of values, and shorten long ones: of these, what follows the beginning goes
 * too. Short values are replaced as whole words in their own case: they also occur in ordinary texts.
 */
function patternOf(value: string): RegExp {
  const start = cut(value, LONG).replaceAll(/[$()*+.?[\\\]^{|}/]/g, "\\$&");
  if (value.length < 5) return new RegExp(`(?<![\\p{L}\\p{N}])${start}(?![\\p{L}\\p{N}])`, "gu");
  return new RegExp(value.length > LONG ? `${start}.*` : start, "giu");
}

function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) yield* strings(inner);
  }
}
