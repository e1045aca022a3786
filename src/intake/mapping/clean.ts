/**
 * Cleans raw values for a candidate: texts become NFC, are trimmed and lose invisible characters;
 * empty values and fields of the other variant are left out. The crmCode is not changed, because
 * it is an identity.
 */
import { FIELDS_OF, variantOf } from "../../core/service-spec/business-relation.ts";
import { FIELD_MAX_LENGTH } from "../../core/sync/mapped.ts";

/** Control, zero-width and direction-changing characters, and the soft hyphen. */
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex -- the expression removes control characters
  /[\u0000-\u0008\u000e-\u001f\u007f-\u0084\u0086-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/g;

/** Joiners are invisible, too, but letters of these scripts need them. */
const JOINERS =
  /(?<![\p{scx=Arab}\p{scx=Deva}\p{scx=Beng}\p{scx=Guru}\p{scx=Gujr}\p{scx=Orya}\p{scx=Taml}\p{scx=Telu}\p{scx=Knda}\p{scx=Mlym}\p{scx=Sinh}\p{scx=Khmr}\p{scx=Mong}])[\u200c\u200d]|[\u200c\u200d](?![\p{L}\p{M}])/gu;

/** Printable ASCII without blanks around it: there is nothing to clean. */
const CLEAN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

export function cleanText(text: string): string {
  if (CLEAN.test(text)) return text;
  return text
    .toWellFormed()
    .replace(INVISIBLE, "")
    .replace(JOINERS, "")
    .replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, " ")
    .normalize("NFC")
    .trim();
}

function cleanValue(value: unknown): unknown {
  if (typeof value === "string") return cleanText(value);
  if (Array.isArray(value)) {
    const items = value
      .map(cleanValue)
      .filter((item) => item !== undefined && item !== null && item !== "");
    return [...new Set(items)];
  }
  return value;
}

/** Longer texts are cut to this: still too long for every field, but not for an expression. */
const LONGEST_TEXT = FIELD_MAX_LENGTH + 1;

/**
 * A record without its nulls, and without the rest of very long texts. CRMs mean "no value" by null, but
 * JSONata does not: `street & " " & null` gives "… null", and `$replace(null, …)` fails.
 */
export function withoutNulls(value: unknown): unknown {
  if (typeof value === "string") return value.slice(0, LONGEST_TEXT);
  if (Array.isArray(value)) {
    return value.flatMap((item) => (item === null ? [] : [withoutNulls(item)]));
  }
  if (typeof value !== "object" || value === null) return value;
  // fromEntries also handles a key `__proto__` as an ordinary key.
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) =>
      inner === null ? [] : [[key, withoutNulls(inner)] as const],
    ),
  );
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (Array.isArray(value) && value.length === 0);

/**
 * @returns the candidate, and the names of the fields that were left out although they had a
 *   value, because the variant does not have them.
 */
export function cleanCandidate(raw: Readonly<Record<string, unknown>>): {
  candidate: Record<string, unknown>;
  dropped: string[];
} {
  const variant = variantOf(cleanValue(raw["type"]));
  const candidate: Record<string, unknown> = {};
  const dropped: string[] = [];
  for (const [field, rawValue] of Object.entries(raw)) {
    const value = field === "crmCode" ? rawValue : cleanValue(rawValue);
    if (isEmpty(value)) continue;
    // Without a variant there is no payload; all fields are kept for the report.
    const exists = variant === undefined ? field !== "__proto__" : FIELDS_OF[variant].has(field);
    if (exists) candidate[field] = value;
    else dropped.push(field);
  }
  return { candidate, dropped };
}

/** Whether a text can be a telephone number at all; "n/a", "-" and "0" cannot. */
export const hasDigit = (text: string): boolean => /(?!0)\p{Nd}/u.test(text);
