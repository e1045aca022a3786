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

/** A place in a text; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/**
 * Where a text stops being JSON; at its end, it is cut off. The parser tells the place of some faults only, and
 * quotes values.
 * @param text that is not JSON @param from where it begins in its file
 */
export function jsonFaultAt(text: string, from: Place = { line: 1, column: 1 }) {
  const message = faultIn(text);
  const told = /at position (\d+)/.exec(message)?.[1];
  const at = message.startsWith(TOKEN) ? tokenAt(text) : Number(told ?? text.length);
  const lines = text.slice(0, at).split("\n");
  const column = (lines.at(-1)?.length ?? 0) + (lines.length === 1 ? from.column : 1);
  return { line: from.line + lines.length - 1, column, isEnd: at >= text.trimEnd().length };
}

/** What a text holds as JSON; undefined: it is none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export const isJson = (text: string): boolean => faultIn(text) === "";

const TOKEN = "Unexpected token";

function faultIn(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** A part of the text has the same fault if it reaches beyond its place. */
function tokenAt(text: string): number {
  let [before, behind] = [0, text.length];
  while (behind - before > 1) {
    const middle = (before + behind) >> 1;
    if (faultIn(text.slice(0, middle)).startsWith(TOKEN)) behind = middle;
    else before = middle;
  }
  return behind - 1;
}
