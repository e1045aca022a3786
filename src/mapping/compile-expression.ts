/** Compiles JSONata expressions, and rejects what a mapping must not do. */
import jsonata from "jsonata";
import { ExpressionError, syntaxError } from "./expression-errors.ts";
import type { CrmRecord, EventContext } from "./mapping.ts";
import { nearest } from "./nearest.ts";

/** JSONata's own limits (ms, depth, items). The thread's deadline stops everything else. */
const LIMITS = { timeout: 500, stack: 200, sequence: 100_000 };

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

export interface Expression {
  /** Names of the record's fields that the expression reads, at any depth. */
  readonly names: ReadonlySet<string>;
  /** Rejects when the expression fails on this record. */
  evaluate(record: CrmRecord | undefined, event: EventContext): Promise<unknown>;
}

/** A node of JSONata's syntax tree. */
export interface Node {
  type?: string;
  value?: unknown;
  lhs?: Node;
  rhs?: Node;
  procedure?: Node;
  arguments?: Node[];
  [key: string]: unknown;
}

/**
 * @param options.key the expression makes a key. It then fails if a part is missing: otherwise
 *   `"hs-" & undefined` would give the key `"hs-"` to every record without an id.
 * @param options.condition the expression decides which records are sent. It then must not use
 *   `a != b`, which is false in JSONata if `a` is missing, so such records would be left out.
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
      "a != b is false if a is missing, so such records would be left out: write $not(a = b)",
    );
  }
  const quoted = [...names].find((name) => /[“”„«»]/.test(name));
  if (quoted !== undefined) {
    throw new ExpressionError(
      `${quoted} has typographic quotes: put texts in straight quotes, "…"`,
    );
  }
  if (addsText) throw new ExpressionError("+ adds numbers: join texts with &");
  if (options.key === true && !readsField && !variables.has("event")) {
    throw new ExpressionError(
      "it is the same for every record: use the record's id, for example $event.recordId",
    );
  }
  if (comparesNull) {
    throw new ExpressionError(
      "null in the record counts as missing here: write $exists(a), or $not($exists(a))",
    );
  }
  for (const name of variables) {
    const why = FORBIDDEN[name];
    if (why !== undefined) throw new ExpressionError(`$${name} is not allowed: ${why}`);
    if (BUILT_IN.has(name) || bound.has(name) || name === "event" || /^\$?$/.test(name)) continue;
    const near = nearest(name, [...BUILT_IN, ...bound, "event"]);
    const meant = near === undefined ? "" : `; did you mean $${near}?`;
    throw new ExpressionError(
      `there is no $${name}${meant || `; write a field of this name in backticks, \`$${name}\` (functions: https://docs.jsonata.org)`}`,
    );
  }
  if (options.key === true) {
    compiled.registerFunction("keyPart", keyPart);
    requireParts(ast);
  }
  return {
    names,
    evaluate: async (record, event) =>
      plain(await whileAwake(async () => compiled.evaluate(record, { event }) as unknown)),
  };
}

/** JSONata's error code for an evaluation that took longer than LIMITS.timeout. */
const TOO_LONG = "D1012";

/**
 * JSONata measures its time limit by the clock. A machine that stood still has used no time of the
 * processor: the evaluation is then repeated.
 */
async function whileAwake(evaluate: () => Promise<unknown>): Promise<unknown> {
  const before = process.threadCpuUsage();
  try {
    return await evaluate();
  } catch (error) {
    const { system, user } = process.threadCpuUsage(before);
    const wasBusy = (system + user) / 1000 > LIMITS.timeout / 2;
    if (wasBusy || (error as { code?: string }).code !== TOO_LONG) throw error;
    return evaluate();
  }
}

/**
 * The syntax tree of an expression.
 * @throws ExpressionError when the text does not compile.
 */
export const parseExpression = (text: string): Node => compile(text).ast() as unknown as Node;

/** Names of the fields that a part of an expression reads. */
export const fieldsIn = (node: Node): string[] => [...survey(node).names];

function compile(text: string): jsonata.Expression {
  try {
    return jsonata(text, LIMITS);
  } catch (error) {
    throw syntaxError(error);
  }
}

/** Copies JSONata's sequences to plain arrays: they carry extra properties. */
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
    if (type === "string" && typeof value === "string") names.add(value); // may be the name in $lookup(record, "name")
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
      // `@$x` and `#$i` also bind a name; it is a property of the step.
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

/** Wraps each operand of `&` that is not a literal in `keyPart`, which fails on a missing value. */
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
