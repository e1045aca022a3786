/** The longest whole number that is exact as a JSON number, and so arrived as one. */
const MAX_DIGITS = 15;

/** A number written plainly, with blanks, apostrophes or commas between thousands. */
export function toNumber(value: string | number): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  const text = value.trim().replace(/(?<=\d)[\s'’,](?=\d{3}(?:\D|$))/g, "");
  if (!/^[+-]?\d+(?:\.\d+)?$/.test(text) || text.length > MAX_DIGITS) return undefined;
  return Number(text);
}
