/** Messages for JSONata's errors: what is wrong with an expression, and what to write instead. */

/** An expression that a mapping cannot use, or that failed on a record. */
export class ExpressionError extends Error {}

/** The error that JSONata throws, when it compiles or when it evaluates. */
interface JsonataError {
  readonly code?: string;
  readonly message?: string;
  readonly position?: number;
  readonly token?: string;
}

/** By the sign: operators of other languages, and what JSONata has instead. */
const OPERATORS: Readonly<Record<string, string>> = {
  "=": "write a single = to compare",
  "|": "for one or the other write `a ? a : b`",
};

/** By JSONata's error code: what to do, for common mistakes whose message does not say it. */
const REMEDIES: Readonly<Record<string, string>> = {
  S0101: "close the quote; if the whole expression is not in single quotes, ` #` begins a comment",
  S0105: "close the backtick of the name",
  S0201: "put an operator such as & between two values, and backticks around a name with a space",
  S0203: "a bracket is not closed",
  S0207: "the expression ends too early",
  S0211: "put texts in double quotes: '\"acme-\" & $event.recordId'",
};

/** The message for an expression that does not compile. */
export function syntaxError(error: unknown): ExpressionError {
  const { code = "", message, position, token } = error as JsonataError;
  const at = position === undefined ? "" : ` (at character ${position})`;
  const remedy = OPERATORS[token ?? ""] ?? REMEDIES[code];
  return new ExpressionError(
    `${message ?? "it cannot be read"}${at}${remedy === undefined ? "" : `; ${remedy}`}`,
  );
}

/** By JSONata's error code: why it failed. JSONata's own messages may quote the record. */
const FAILURES: Readonly<Record<string, string>> = {
  D1011: "the recursion is too deep",
  D1012: "it takes too long",
  D3030: "a value is not a number",
  T0410: "an argument of a function has the wrong type",
  T0411: "an argument of a function has the wrong type",
  T0412: "a list argument of a function has items of the wrong type",
  T1006: "the expression calls something that is not a function",
  T2001: "arithmetic needs numbers",
  T2002: "arithmetic needs numbers",
  T2010: "a comparison needs two numbers or two texts",
};

/** @param explain use JSONata's own message, which may contain values of the record. */
export function failureOf(error: unknown, explain = false): string {
  const { code, position, message } = error as JsonataError;
  if (code === undefined) return message ?? "the expression failed";
  const at = position === undefined ? "" : ` at character ${position}`;
  const reason = explain ? message : FAILURES[code];
  return `the expression failed${at}: ${reason ?? `JSONata ${code}`}`;
}
