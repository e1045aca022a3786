/** JSONata expressions: compiled once, held to what a mapping may do, with errors in plain words. */
import jsonata from "jsonata";
import type { CrmRecord, EventContext } from "./mapping.ts";
import { nearest } from "./nearest.ts";

/** Bounds within one expression; what they cannot stop, the worker's deadline does. */
const GUARDRAILS = { timeout: 500, stack: 200, sequence: 100_000 };

/** Results must depend on the record alone: another value each time would cost requests. */
const REFUSED: Readonly<Record<string, string>> = {
  eval: "it would run what a record says",
  now: "the result must not depend on when it is evaluated",
  millis: "the result must not depend on when it is evaluated",
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

export class ExpressionError extends Error {}

export interface Expression {
  /** Names of fields that the expression reads, wherever they lie. */
  readonly names: ReadonlySet<string>;
  /** Rejects when the expression fails on this record. */
  evaluate(record: CrmRecord | undefined, event: EventContext): Promise<unknown>;
}

interface Node {
  type?: string;
  value?: unknown;
  lhs?: Node;
  rhs?: Node;
  procedure?: Node;
  arguments?: Node[];
  [key: string]: unknown;
}

/**
 * @param options.key the expression makes a key: a part that is missing makes it fail, where
 *   otherwise `"hs-" & undefined` would give `"hs-"` to every record without an id.
 * @param options.condition the expression decides which records are sent: `a != b` is refused,
 *   since JSONata takes it for false where `a` is missing, and so would leave such records out.
 * @throws ExpressionError that says what is wrong and where.
 */
export function compileExpression(
  text: string,
  options: { readonly key?: boolean; readonly condition?: boolean } = {},
): Expression {
  const compiled = compile(text);
  const ast = compiled.ast() as unknown as Node;
  const { names, variables, bound, operators, readsField, comparesNull, addsText } = survey(ast);
  if (options.condition === true && operators.has("!=")) {
    throw new ExpressionError(
      "a != b is false where a is missing, so such records would be left out: write $not(a = b)",
    );
  }
  const quoted = [...names].find((name) => /[“”„«»]/.test(name));
  if (quoted !== undefined) {
    throw new ExpressionError(
      `${quoted} has typographic quotes: texts stand in straight ones, "…"`,
    );
  }
  if (addsText) throw new ExpressionError("+ adds numbers: texts are joined with &");
  if (options.key === true && !readsField && !variables.has("event")) {
    throw new ExpressionError(
      "it is the same for every record: make it of the record's id, such as $event.recordId",
    );
  }
  if (comparesNull) {
    throw new ExpressionError(
      "what is null in the record counts as missing here: write $exists(a), or $not($exists(a))",
    );
  }
  for (const name of variables) {
    const why = REFUSED[name];
    if (why !== undefined) throw new ExpressionError(`$${name} is not allowed: ${why}`);
    if (BUILT_IN.has(name) || bound.has(name) || name === "event" || /^\$?$/.test(name)) continue;
    const near = nearest(name, [...BUILT_IN, ...bound, "event"]);
    const meant = near === undefined ? "" : `; did you mean $${near}?`;
    throw new ExpressionError(
      `there is no $${name}${meant || `; a field of this name is written \`$${name}\`, in backticks (functions: https://docs.jsonata.org)`}`,
    );
  }
  if (options.key === true) {
    compiled.registerFunction("keyPart", keyPart);
    requireParts(ast);
  }
  return {
    names,
    evaluate: async (record, event) => plain(await compiled.evaluate(record, { event })),
  };
}

function compile(text: string): jsonata.Expression {
  try {
    return jsonata(text, GUARDRAILS);
  } catch (error) {
    const { code = "", message, position, token } = error as JsonataError;
    const at = position === undefined ? "" : ` (at character ${position})`;
    const remedy = SIGNS[token ?? ""] ?? REMEDIES[code];
    throw new ExpressionError(
      `${message ?? "it cannot be read"}${at}${remedy === undefined ? "" : `; ${remedy}`}`,
    );
  }
}

interface JsonataError {
  readonly code?: string;
  readonly message?: string;
  readonly position?: number;
  readonly token?: string;
}

/** Signs of other languages. */
const SIGNS: Readonly<Record<string, string>> = {
  "=": "a single = compares",
  "|": "one or the other is `a ? a : b`",
};

/** For slips that are common and whose message does not say what to do. */
const REMEDIES: Readonly<Record<string, string>> = {
  S0101:
    "a text begins and ends with a quote, and in a line without quotes around it ` #` begins a comment",
  S0105: "a name in backticks ends with one",
  S0201: "between two values stands an operator, such as &; a name with a blank needs backticks",
  S0203: "a bracket is not closed",
  S0207: "the expression ends too early",
  S0211: "a text stands in double quotes: '\"acme-\" & $event.recordId'",
};

/** What failed, without a word of the record: JSONata's messages may quote it. */
const FAILURES: Readonly<Record<string, string>> = {
  D1011: "it goes too deep",
  D1012: "it takes too long",
  D3030: "something is no number",
  T0410: "a function was given a value of another kind",
  T0411: "a function was given a value of another kind",
  T0412: "a list given to a function has items of another kind",
  T1006: "something that is no function was called",
  T2001: "arithmetic needs numbers",
  T2002: "arithmetic needs numbers",
  T2010: "a comparison needs two numbers or two texts",
};

/** @param explained with JSONata's own message, which may hold values of the record. */
export function failureOf(error: unknown, explained = false): string {
  const { code, position, message } = error as JsonataError;
  if (code === undefined) return message ?? "the expression failed";
  const at = position === undefined ? "" : ` at character ${position}`;
  const says = explained ? message : FAILURES[code];
  return `the expression failed${at}: ${says ?? `JSONata ${code}`}`;
}

/** Sequences are arrays with marks on them, and functions are no values. */
function plain(value: unknown): unknown {
  if (typeof value === "function") throw new ExpressionError("the result is a function");
  return Array.isArray(value) ? Array.from(value as unknown[]) : value;
}

function survey(ast: Node) {
  const names = new Set<string>();
  const variables = new Set<string>();
  const bound = new Set<string>();
  const operators = new Set<string>();
  let readsField = false;
  let comparesNull = false;
  let addsText = false;
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach(visit);
    const { type, value, lhs } = node as Node;
    readsField ||= type === "name" || type === "wildcard" || type === "descendant";
    if (type === "name" && typeof value === "string") names.add(value);
    if (type === "string" && typeof value === "string") names.add(value); // of $lookup
    if (type === "binary" && typeof value === "string") {
      operators.add(value);
      const sides = [lhs, (node as Node).rhs];
      addsText ||= value === "+" && sides.some((side) => side?.type === "string");
      comparesNull ||= /^!?=$/.test(value) && sides.some(isNull);
    }
    if (type === "variable" && typeof value === "string") variables.add(value);
    if (type === "bind" && typeof lhs?.value === "string") bound.add(lhs.value);
    if (type === "lambda") {
      for (const argument of (node as Node).arguments ?? []) bound.add(String(argument.value));
    }
    for (const [key, child] of Object.entries(node as Node)) {
      // `@$x` and `#$i` bind too; there the name lies beside the step.
      if ((key === "focus" || key === "index") && typeof child === "string") bound.add(child);
      visit(child);
    }
  };
  visit(ast);
  return { names, variables, bound, operators, readsField, comparesNull, addsText };
}

const isNull = (node: Node | undefined): boolean => node?.type === "value" && node.value === null;

function keyPart(value: unknown): unknown {
  const usable = typeof value === "string" ? value.trim() !== "" : typeof value === "number";
  if (!usable) throw new ExpressionError("a part of the key is missing");
  return value;
}

/** Wraps the operands of each `&` that are no literals. */
function requireParts(node: Node): void {
  if (node.type === "block") {
    const expressions = node["expressions"] as Node[] | undefined;
    expressions?.forEach(requireParts);
  }
  if (node.type === "condition") {
    for (const branch of [node["then"], node["else"]]) if (branch) requireParts(branch as Node);
  }
  if (node.type !== "binary" || node.value !== "&") return;
  for (const side of ["lhs", "rhs"] as const) {
    const operand = node[side];
    if (operand === undefined) continue;
    if (operand.type === "binary" && operand.value === "&") requireParts(operand);
    else if (operand.type !== "string") {
      node[side] = {
        type: "function",
        value: "(",
        position: 0,
        arguments: [operand],
        procedure: { type: "variable", value: "keyPart", position: 0 },
      };
    }
  }
}
