/**
 * Checks whether the keys of a mapping can be made for deletions: most of these contain no record,
 * but only its object and id. The daemon also runs a mapping that fails this check; each of these
 * deletions then becomes a dead letter.
 */
import { crmCodeSchema } from "../service-spec/business-relation.ts";
import { compileExpression, parseExpression } from "./compile-expression.ts";
import { ExpressionError, failureOf } from "./expression-errors.ts";
import { recordFieldsIn } from "./expression-tree.ts";
import { objectsOf, type MappingFile, type ObjectRule } from "./mapping-file.ts";
import type { Mistake } from "./mistake.ts";

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
