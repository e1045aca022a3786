/** What is probably not meant in a mapping file, although it is valid. */
import { parseExpression } from "./compile-expression.ts";
import { ExpressionError } from "./expression-errors.ts";
import { fieldsIn, type Node } from "./expression-tree.ts";
import type { MappingFile } from "./mapping-file.ts";

export function mappingWarnings(file: MappingFile): string[] {
  return file.objects.flatMap(({ object, when }) =>
    (when === undefined ? [] : undecidedNegations(when)).map((field) => {
      const place = `${[object].flat().join("/")}, when`;
      return `${place}: $not(…) is neither true nor false if ${field} is missing, which counts as false, so such records are left out: write $not((…) = true)`;
    }),
  );
}

/** The fields whose absence makes a negation, and so the whole condition, count as false. */
function undecidedNegations(condition: string): string[] {
  const found: string[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach(visit);
    const { type, procedure, arguments: given } = node as Node;
    const [negated] = given ?? [];
    if (type === "function" && procedure?.value === "not" && mayBeMissing(negated)) {
      found.push(fieldsIn(negated)[0] ?? "a field");
    }
    Object.values(node).forEach(visit);
  };
  try {
    visit(parseExpression(condition));
  } catch (error) {
    // An expression that does not compile is a mistake, and reported as such.
    if (!(error instanceof ExpressionError)) throw error;
  }
  return found;
}

/** Functions without a result where their first argument is missing. */
const NEED_A_VALUE = new Set(["contains", "boolean", "not", "match", "lookup"]);

/** Whether an expression may have no result. One with =, in, and, or always has one. */
function mayBeMissing(node: Node | undefined): node is Node {
  const { type, value, procedure, arguments: given } = node ?? {};
  if (type === "binary") return ["<", "<=", ">", ">="].includes(String(value));
  if (type === "function")
    return NEED_A_VALUE.has(String(procedure?.value)) && mayBeMissing(given?.[0]);
  if (type === "block") return mayBeMissing((node?.["expressions"] as Node[] | undefined)?.at(-1));
  return type === "path" || type === "name" || type === "variable";
}
