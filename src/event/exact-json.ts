/** An integer that a double cannot hold has at least this many digits. */
const LONG_NUMBER = /\d{16}/;

/**
 * Parses JSON without rounding: an integer that a number cannot hold, such as an id of 19 digits,
 * becomes a text of its digits.
 * @throws SyntaxError when it is not JSON; its message may quote the text.
 */
export function parseExactly(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, keepDigits);
  } catch (error) {
    // The parser itself is not recursive, but its callback is.
    if (error instanceof RangeError) throw new SyntaxError("nested too deep", { cause: error });
    throw error;
  }
}

function keepDigits(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source ?? "";
  return /^-?\d+$/.test(source) ? source : value;
}
