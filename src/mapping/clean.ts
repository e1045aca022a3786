/**
 * Makes a candidate payload out of raw values, by what the service's spec leaves no doubt about:
 * text is NFC, trimmed and free of invisible characters; what is empty is left out; so are
 * fields that the variant does not have. The crmCode alone stays as it is: it is an identity.
 */
import { FIELDS_OF, variantOf } from "../spec/business-relation.ts";

// oxlint-disable-next-line no-control-regex -- control characters are what is removed
const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200d\u2060\ufeff]/g;

export function cleanText(text: string): string {
  return text
    .toWellFormed()
    .normalize("NFC")
    .replace(INVISIBLE, "")
    .replace(/[\t\n\r]+/g, " ")
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

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (Array.isArray(value) && value.length === 0);

/**
 * @returns the candidate, and the names of fields that had a value but do not exist for this
 *   variant (or at all), which were left out.
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
    if (variant === undefined || FIELDS_OF[variant].has(field)) candidate[field] = value;
    else dropped.push(field);
  }
  return { candidate, dropped };
}
