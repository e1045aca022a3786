/** What is probably not meant in a mapping file, although it is valid. */
import { parseExpression } from "./compile-expression.ts";
import { ExpressionError } from "./expression-errors.ts";
import { fieldsIn, nodesIn, type Node } from "./expression-tree.ts";
import { fieldsOf, type MappingFile, type ObjectRule } from "./mapping-file.ts";
import { verifyOf } from "./webhooks/verify-rule.ts";
import type { WebhookRule } from "./webhooks/rule.ts";

export function mappingWarnings(file: MappingFile): string[] {
  const negations = file.objects.flatMap(({ object, when }) =>
    (when === undefined ? [] : undecidedNegations(when)).map((field) => {
      return `${object.join("/")}, when: $not(…) is neither true nor false if ${field} is missing, which counts as false, so such records are left out: write $not((…) = true)`;
    }),
  );
  const webhooks = Object.entries(file.webhooks ?? {});
  return [
    ...negations,
    ...file.objects.flatMap(lateIndexes),
    ...catchAllWords(file),
    ...webhooks.flatMap(unsignedOperation),
    ...webhooks.flatMap(missingOperation),
  ];
}

/** A list that is narrowed to some items, and an index after the field of the items: `mails[work].value[0]`. */
const LATE_INDEX = /([\w$`.]+\[[^[\]]*[^[\]\d-][^[\]]*\])((?:\.(?:\w+|`[^`]+`))+)(\[-?\d+\])/g;

function lateIndexes(rule: ObjectRule): string[] {
  const { object, when, crmCode } = rule;
  const inFields = fieldsOf(rule).flatMap(([name, { fallback, from }]) =>
    [from, fallback].map((text) => [`fields.${name}`, text] as const),
  );
  return [["when", when] as const, ["crmCode", crmCode] as const, ...inFields].flatMap(
    ([place, text = ""]) =>
      [...text.matchAll(LATE_INDEX)].map(
        ([found, list = "", field = "", index = ""]) =>
          `${object.join("/")}, ${place}: ${found} takes one value of each item, not of one item: write ${list}${index}${field}`,
      ),
  );
}

/** Words that authors take for "everything else". */
const CATCH_ALL = /^(?:\*|_|any|default|else|otherwise)$/i;
const CATCH_ALL_IF_NULL = /^(?:unknown|others?)$/i;

function catchAllWords({ objects, tables = {} }: MappingFile): string[] {
  const inFields = objects
    .flatMap(fieldsOf)
    .flatMap(([, { table }]) => (typeof table === "object" ? [table] : []));
  const words = [...Object.values(tables), ...inFields].flatMap((table) =>
    Object.entries(table).filter(
      ([word, value]) => CATCH_ALL.test(word) || (value === null && CATCH_ALL_IF_NULL.test(word)),
    ),
  );
  return [...new Set(words.map(([word]) => word))].map(
    (word) =>
      `table: ${word} is only the CRM's word ${word}, not every value that the table does not have: these are left out with a warning, or replaced by \`default\` beside \`table\``,
  );
}

/** A module is code, and no thread, no cleared variable and no limit keeps it from what the daemon may do. */
export const MODULE_WARNING =
  "a module is code that runs with the rights of the daemon: it can read its secrets and files, and use the network; use only modules that you trust as you trust crmsync";

/** A copy of a signed body, sent with another query or header, would be another change. */
function unsignedOperation([name, { verify, operation }]: [string, WebhookRule]): string[] {
  const isSigned = verifyOf(name, verify).by === "hmac";
  const [unsigned] = /\$(?:query|headers)\b/.exec(operation?.from ?? "") ?? [];
  if (!isSigned || unsigned === undefined) return [];
  return [
    `webhooks.${name}, operation: ${unsigned} is not signed, so a copy of a signed request can be made a deletion: find the operation in the body; or make a webhook for each operation, with a secret of its own`,
  ];
}

/** Most tools post deletions to the same address. */
const missingOperation = ([name, rule]: [string, WebhookRule]): string[] =>
  rule.operation !== undefined || rule.fetch !== undefined || rule.format !== undefined
    ? []
    : [
        `webhooks.${name}: without \`operation\` every event is an update, so a deletion would not end its relation: name what says what happened, as in operation: action; if only updates are posted, write operation: { value: updated }`,
      ];

/** The fields whose absence makes a negation, and so the whole condition, count as false. */
function undecidedNegations(condition: string): string[] {
  try {
    return nodesIn(parseExpression(condition)).flatMap(
      ({ type, procedure, arguments: [negated] = [] }) =>
        type === "function" && procedure?.value === "not" && mayBeMissing(negated)
          ? [fieldsIn(negated)[0] ?? "a field"]
          : [],
    );
  } catch (error) {
    // An expression that does not compile is a mistake, and reported as such.
    if (!(error instanceof ExpressionError)) throw error;
    return [];
  }
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
