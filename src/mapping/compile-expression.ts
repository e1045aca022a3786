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
  const { names, variables, bound, operators, comparesNull } = survey(ast);
  if (options.condition === true && operators.has("!=")) {
    throw new ExpressionError(
      "a != b is false where a is missing, so such records would be left out: write $not(a = b)",
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
    throw new ExpressionError(
      `there is no $${name}${near === undefined ? "" : `; did you mean $${near}?`}`,
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
    const { message, position } = error as { message?: string; position?: number };
    const at = position === undefined ? "" : ` (at character ${position})`;
    throw new ExpressionError(`${message ?? "the expression cannot be read"}${at}`);
  }
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
  let comparesNull = false;
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach(visit);
    const { type, value, lhs } = node as Node;
    if (type === "name" && typeof value === "string") names.add(value);
    if (type === "string" && typeof value === "string") names.add(value); // of $lookup
    if (type === "binary" && typeof value === "string") {
      operators.add(value);
      comparesNull ||= /^!?=$/.test(value) && (isNull(lhs) || isNull((node as Node).rhs));
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
  return { names, variables, bound, operators, comparesNull };
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
