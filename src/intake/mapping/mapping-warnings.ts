/** What is probably not meant in a mapping file, although it is valid. */
import type { Mistake } from "./schema-parts.ts";
import { parseExpression, compileExpression } from "./compile-expression.ts";
import { ExpressionError, failureOf } from "./expression-errors.ts";
import { fieldsIn, nodesIn, type Node, recordFieldsIn } from "./expression-tree.ts";
import { fieldsOf, type MappingFile, type ObjectRule, objectsOf, tableOf } from "./mapping-file.ts";
import { lookUp, nearest } from "./compare-texts.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { verifyOf } from "./webhooks/verify-rule.ts";
import type { WebhookRule } from "./webhooks/rule.ts";
import { crmCodeSchema } from "../../core/service-spec/business-relation.ts";

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

/** Names of custom fields as Pipedrive makes them: of each account its own. */
const HASH = /\b[0-9a-f]{40}\b/g;

/**
 * Fields that still read a custom field of the preset's example.
 * @param preset the text of the preset for Pipedrive.
 * @param where it can be written, as ` in a copy`.
 */
export function placeholderFields(file: MappingFile, preset: string, where: string): string[] {
  const placeholders = new Set(preset.match(HASH));
  return file.objects.flatMap((rule) =>
    fieldsOf(rule).flatMap(([name, { fallback = "", from = "" }]) =>
      (`${from} ${fallback}`.match(HASH) ?? [])
        .filter((hash) => placeholders.has(hash))
        .map(
          (hash) =>
            `${rule.object.join("/")}, ${name}: ${hash} is only an example, no field of your Pipedrive: write the hash of your own field (Settings → Data fields → API key), or ${name === "type" ? "write type: { value: Company }" : `remove ${name}`}${where}`,
        ),
    ),
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

/** Values that the mapping itself gives and the tenant's lists do not have: each is left out, or makes a dead letter. */
export function unlistedConstants(file: MappingFile, lists: TenantLists): string[] {
  const found = file.objects.flatMap((rule) =>
    fieldsOf(rule).flatMap(([name, field]) => {
      const values = lists.get(name)?.values;
      const { default: fallback, fallback: otherwise, from, value } = field;
      const constants = [value, literalIn(from), literalIn(otherwise), fallback];
      const all = [...constants, ...Object.values(tableOf(field, file) ?? {})].flat();
      return all.flatMap((one) => {
        if (values === undefined || one === undefined || one === null) return [];
        const text = typeof one === "string" ? one : JSON.stringify(one);
        if (lookUp(text, values) !== undefined) return [];
        const near = nearest(text, values);
        const meant = near === undefined ? "" : `; did you mean ${near}?`;
        return `${rule.object.join("/")}, ${name}: ${JSON.stringify(one)} is not on the tenant's list of ${name} (${values.size} values)${meant}`;
      });
    }),
  );
  return [...new Set(found)];
}

/** The text of an expression that is nothing but a text. */
function literalIn(expression: string | undefined): unknown {
  if (expression === undefined) return undefined;
  const { type, value } = parseExpression(expression);
  return type === "string" ? value : undefined;
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

const REMEDY =
  "make it from $event.recordId; if this CRM sends the record with its deletions, or never deletes, write `keyNeedsRecord: true` beside it";

export async function checkDeletions(file: MappingFile): Promise<Mistake[]> {
  const mistakes: Mistake[] = [];
  for (const [index, rule] of file.objects.entries()) {
    if (rule.keyNeedsRecord === true) continue;
    const why = otherKey(rule, file.objects.slice(0, index)) ?? (await unusable(rule));
    if (why === undefined) continue;
    const message = `cannot be made for a deletion, which brings no record: ${why}; ${REMEDY}`;
    mistakes.push({ path: ["objects", index, "crmCode"], message });
  }
  return mistakes;
}

/** A deletion without a record gets its key from the first rule of the object. */
function otherKey(rule: ObjectRule, earlier: readonly ObjectRule[]): string | undefined {
  for (const object of rule.object) {
    const first = earlier.find((other) => objectsOf(other).has(object.toLowerCase()));
    if (first !== undefined && first.crmCode !== rule.crmCode) {
      return `the first rule of ${object} then makes the key, and its crmCode is another one`;
    }
  }
  return undefined;
}

/** Ids as the CRMs have them: an expression may expect a certain form. */
const SAMPLE_IDS = ["4711", "5f2d9c11-8e1f-4c55-9c1b-3d7a2f0b6e21", "003Qk00000AbC12IAF"];

async function unusable({ object: [name = ""], crmCode }: ObjectRule): Promise<string | undefined> {
  try {
    const fields = recordFieldsIn(parseExpression(crmCode));
    if (fields.length > 0) return `it reads ${fields.join(", ")} from the record`;
    const expression = compileExpression(crmCode, { key: true });
    let failure = "";
    for (const recordId of SAMPLE_IDS) {
      const subject = `${name}/${recordId}`;
      const event = { type: "crm.record.deleted", source: "/crm", object: name, recordId, subject };
      try {
        const key = await expression.evaluate(undefined, event);
        if (crmCodeSchema.safeParse(Number.isSafeInteger(key) ? String(key) : key).success) {
          return undefined;
        }
        failure ||= `it gives no usable key for ${subject}`;
      } catch (error) {
        failure ||= `${failureOf(error)} (for ${subject})`;
      }
    }
    return failure;
  } catch (error) {
    // Another check reports an expression that does not compile.
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}
