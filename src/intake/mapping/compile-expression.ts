/** Compiles JSONata expressions, and rejects what a mapping must not do. */
import jsonata from "jsonata";
import { ExpressionError, syntaxError, faultsOf } from "./expression-errors.ts";
import type { CrmRecord, EventContext } from "./mapping.ts";
import { isDeeperThan, pathsIn, survey, type FieldPath, type Node } from "./expression-tree.ts";

/** JSONata's own limits (ms, depth, items). The thread's deadline stops everything else. */
const LIMITS = { timeout: 500, stack: 200, sequence: 100_000 };

export interface Expression {
  /** Names of the record's fields that the expression reads, at any depth. */
  readonly names: ReadonlySet<string>;
  /** It joins texts, and so gives a part of its value if it finds only some of them. */
  readonly joins: boolean;
  /** What it reads of the record. */
  readonly paths: readonly FieldPath[];
  /** Rejects when the expression fails on this record. */
  evaluate(record: CrmRecord | undefined, event: EventContext): Promise<unknown>;
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
  const { names, joins, paths, evaluate } = checkedExpression(text, ["event"], options);
  return { names, joins, paths, evaluate: (record, event) => evaluate(record, { event }) };
}

/**
 * @param given the variables that the expression may read, without the dollar sign.
 * @throws ExpressionError that says what is wrong and where.
 */
export function checkedExpression(
  text: string,
  given: readonly string[],
  options: { readonly key?: boolean; readonly condition?: boolean } = {},
) {
  const compiled = compile(text);
  const ast = compiled.ast() as unknown as Node;
  const parts = survey(ast);
  const faults = faultsOf(parts, given, options);
  if (faults.length > 0) throw new ExpressionError(faults.join("; and "));
  compiled.registerFunction("pad", pad, "<s-ns?:s>");
  const paths = pathsIn(ast);
  if (options.key === true) {
    compiled.registerFunction("keyPart", keyPart);
    requireParts(ast);
  }
  compiled.registerFunction("short", short);
  limitTexts(ast);
  return {
    text,
    names: parts.names,
    joins: parts.operators.has("&") && !parts.chooses,
    paths,
    evaluate: async (input: unknown, bindings: Readonly<Record<string, unknown>>) =>
      plain(await whileAwake(async () => compiled.evaluate(input, bindings) as unknown)),
  };
}

/** JSONata's error code for an evaluation that took longer than LIMITS.timeout. */
const TOO_LONG = "D1012";

/**
 * JSONata measures its time limit by the clock. A machine that was suspended has used no time of the
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

/** Nested more deeply, an expression would overflow the stack. JSONata evaluates about a hundred levels. */
const DEEPEST = 1000;

function compile(text: string): jsonata.Expression {
  const compiled = parsed(text);
  if (isDeeperThan(compiled.ast() as unknown as Node, DEEPEST)) {
    throw new ExpressionError(
      `it nests more than ${DEEPEST} levels deep; put texts into one list, as in $join([a, b, c])`,
    );
  }
  return compiled;
}

function parsed(text: string): jsonata.Expression {
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

/** The widest text that `$pad` makes. JSONata's own would make one so large that the whole process ends. */
const MOST_PADDED = 100_000;

/** As JSONata documents `$pad`. @param width negative: pads on the left */
function pad(text: string | undefined, width: number, fill = " "): string | undefined {
  if (text === undefined) return undefined;
  if (Math.abs(width) > MOST_PADDED)
    throw new ExpressionError(`$pad makes no text of more than ${MOST_PADDED} characters`);
  const missing = Math.max(0, Math.abs(width) - Array.from(text).length);
  const signs = Array.from(fill === "" ? " " : fill);
  const padding = Array.from({ length: missing }, (_, index) => signs[index % signs.length]).join(
    "",
  );
  return width < 0 ? padding + text : text + padding;
}

/** The longest text that `&` makes, in characters: a record has 1 MiB. Repeated doubling would end the whole process. */
const MOST_JOINED = 8_000_000;

function short(text: unknown): unknown {
  if (typeof text === "string" && text.length > MOST_JOINED)
    throw new ExpressionError(`& makes no text of more than ${MOST_JOINED} characters`);
  return text;
}

/** Wraps each `&` in `short`. @param isApplied right of `~>` must stand a function */
function limitTexts(node: unknown, isApplied = false): void {
  if (typeof node !== "object" || node === null) return;
  const { type, value } = node as Partial<Node>;
  for (const [key, part] of Object.entries(node))
    limitTexts(part, type === "apply" && key === "rhs");
  if (type === "binary" && value === "&" && !isApplied)
    Object.assign(node, calling("short", { ...node }));
}

/** The node of a call of this function. */
const calling = (name: string, argument: Node): Node => ({
  type: "function",
  value: "(",
  position: 0,
  arguments: [argument],
  procedure: { type: "variable", value: name, position: 0 },
});

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
    else if (operand.type !== "string") node[side] = calling("keyPart", operand);
  }
}
