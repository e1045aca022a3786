/** Whole numbers with at most 15 digits are exact as JSON numbers. */
const MAX_DIGITS = 15;

/** A plain decimal number; spaces, apostrophes or commas may separate thousands. */
export function toNumber(value: string | number): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  const text = value.trim().replace(/(?<=\d)[\s'’,](?=\d{3}(?:\D|$))/g, "");
  if (!/^[+-]?\d+(?:\.\d+)?$/.test(text) || text.length > MAX_DIGITS) return undefined;
  return Number(text);
}
