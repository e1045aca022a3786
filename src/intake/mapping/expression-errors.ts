/** Messages for JSONata's errors: what is wrong with an expression, and what to write instead. */
import type { Survey } from "./expression-tree.ts";
import type { EventContext } from "./mapping.ts";
import { nearest } from "./compare-texts.ts";

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

/** Functions that are not allowed: a result that differs each time would cost requests. */
const FORBIDDEN: Readonly<Record<string, string>> = {
  eval: "it would run text from the record",
  now: "the result must not depend on the time of evaluation",
  millis: "the result must not depend on the time of evaluation",
  random: "the result must be the same each time",
  shuffle: "the result must be the same each time",
};

const BUILT_IN = new Set(
  `sum count max min average string substring substringBefore substringAfter lowercase uppercase
  length trim pad match contains replace split join formatNumber formatBase formatInteger
  parseInteger number floor ceil round abs sqrt power boolean not map zip filter single reduce
  sift keys lookup append exists spread merge reverse each error assert type sort distinct
  base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent decodeUrl fromMillis
  toMillis clone`.split(/\s+/),
);

const EVENT_FIELDS: Readonly<Record<Exclude<keyof EventContext, "partial">, true>> = {
  recordId: true,
  object: true,
  subject: true,
  type: true,
  source: true,
};

/** @param given the variables that the expression may read, without the dollar sign. */
export function faultsOf(
  parts: Survey,
  given: readonly string[],
  { key, condition }: { readonly key?: boolean; readonly condition?: boolean },
): string[] {
  const faults: string[] = [];
  if (condition === true && parts.operators.has("!=")) {
    faults.push(
      "a != b is false if a is missing, so such records would be left out: write $not(a = b)",
    );
  }
  const quoted = [...parts.names].find((name) => /[“”„«»]/.test(name));
  if (quoted !== undefined) {
    faults.push(`${quoted} has typographic quotes: put texts in straight quotes, "…"`);
  }
  if (parts.addsText) faults.push("+ adds numbers: join texts with &");
  const differs = parts.readsField || ["event", "", "$"].some((name) => parts.variables.has(name));
  if (key === true && !differs) {
    faults.push(
      "it is the same for every record: use the record's id, for example $event.recordId",
    );
  }
  if (parts.comparesNull) {
    faults.push("null in the record counts as missing here: write $exists(a), or $not($exists(a))");
  }
  if (given.includes("event") && !parts.bound.has("event"))
    faults.push(...[...parts.ofEvent].flatMap(eventFault));
  for (const name of parts.variables) faults.push(...variableFault(name, parts.bound, given));
  return faults;
}

function eventFault(name: string): string[] {
  if (Object.hasOwn(EVENT_FIELDS, name)) return [];
  const names = Object.keys(EVENT_FIELDS);
  const near = nearest(name, names);
  const meant = near === undefined ? `it has ${names.join(", ")}` : `did you mean ${near}?`;
  return [`$event has no ${name}; ${meant}`];
}

function variableFault(
  name: string,
  bound: ReadonlySet<string>,
  given: readonly string[],
): string[] {
  const why = Object.hasOwn(FORBIDDEN, name) ? FORBIDDEN[name] : undefined;
  if (why !== undefined) return [`$${name} is not allowed: ${why}`];
  if (BUILT_IN.has(name) || bound.has(name) || given.includes(name) || /^\$?$/.test(name))
    return [];
  const near = nearest(name, [...BUILT_IN, ...bound, ...given]);
  const meant =
    near === undefined
      ? `; write a field of this name in backticks, \`$${name}\` (functions: https://docs.jsonata.org)`
      : `; did you mean $${near}?`;
  return [`there is no $${name}${meant}`];
}
