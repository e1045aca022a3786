/** Makes the service's words fit to be kept and shown. */
import * as lists from "../service-spec/value-lists.ts";

const MAX_LENGTH = 300;

/** Words of the spec itself are no personal data, and a message without them says nothing. */
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
 * The text without control characters, addresses, secrets and values of the payload, cut to a
 * length that a log line and a dead letter can bear.
 */
export function scrub(text: string, payload: object, secrets: readonly string[]): string {
  let clean = text.slice(0, 10 * MAX_LENGTH).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
  for (const secret of secrets) if (secret !== "") clean = clean.replaceAll(secret, "[secret]");
  clean = clean.replace(/\bhttps?:\/\/\S+/gi, "[address]");
  const values = [...strings(payload)].filter((value) => value.length > 1 && !PUBLIC.has(value));
  for (const value of values.sort((a, b) => b.length - a.length)) {
    clean = value.length < 5 ? replaceWord(clean, value) : clean.replaceAll(value, "[value]");
  }
  return clean.length > MAX_LENGTH ? `${clean.slice(0, MAX_LENGTH - 1)}…` : clean.trim();
}

/** Short values also occur inside ordinary words, which must stay readable. */
function replaceWord(text: string, value: string): string {
  const word = value.replaceAll(/[$()*+.?[\\\]^{|}/]/g, "\\$&");
  return text.replace(new RegExp(`(?<![\\p{L}\\p{N}])${word}(?![\\p{L}\\p{N}])`, "gu"), "[value]");
}

function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) yield* strings(inner);
  }
}
