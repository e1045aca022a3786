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
