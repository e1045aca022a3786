/** An integer that a double cannot hold has at least this many digits. */
const DIGITS = 16;
const LONG_NUMBER = /\d{16}/;

/** An integer, not a part of a number with a fraction or an exponent. */
const LONG_INTEGERS = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/**
 * Parses JSON without rounding: an integer that a number cannot hold, such as an id of 19 digits,
 * becomes a text of its digits. They are quoted in the text, because a reviver takes seconds for a
 * body of a million numbers. Some tools write a byte order mark before it.
 * @throws SyntaxError when it is not JSON; its message may quote the text.
 */
export function parseExactly(given: string): unknown {
  const text = given.startsWith("\ufeff") ? given.slice(1) : given;
  const value: unknown = JSON.parse(text);
  return LONG_NUMBER.test(text) ? JSON.parse(quoteLongIntegers(text)) : value;
}

/** @param text valid JSON */
function quoteLongIntegers(text: string): string {
  const parts: string[] = [];
  let copied = 0;
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    const end = quote === -1 ? text.length : quote;
    // Only what stands outside of strings can be a number.
    if (end - at >= DIGITS) {
      for (const { 0: digits, index } of text.slice(at, end).matchAll(LONG_INTEGERS)) {
        if (Number.isSafeInteger(Number(digits))) continue;
        parts.push(text.slice(copied, at + index), `"${digits}"`);
        copied = at + index + digits.length;
      }
    }
    at = quote === -1 ? end : endOfString(text, quote);
  }
  return parts.join("") + text.slice(copied);
}

/** The place after the string that begins at this quote. */
function endOfString(text: string, begin: number): number {
  for (let at = begin + 1; ;) {
    const end = text.indexOf('"', at);
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return end + 1;
    at = end + 1;
  }
}
