/** Maps one record by a compiled mapping: finds its rule, makes its key, maps its fields. */
import { crmCodeSchema } from "../service-spec/business-relation.ts";
import { kindOf, problemsOf, type Problem } from "../sync/problem.ts";
import { withoutNulls } from "./clean.ts";
import type { CompiledMapping, CompiledRule } from "./compile-mapping.ts";
import type { Expression } from "./compile-expression.ts";
import { failureOf } from "./expression-errors.ts";
import { mapFields, unmappable, type Watch } from "./map-fields.ts";
import type { CrmRecord, EventContext, MapOptions, MappingResult } from "./mapping.ts";

export async function mapRecord(
  mapping: CompiledMapping,
  event: EventContext,
  given: CrmRecord | undefined,
  options: MapOptions = {},
  watch: Watch = () => {},
): Promise<MappingResult> {
  const record = given && (withoutNulls(given) as CrmRecord);
  const object = event.object.toLowerCase();
  const rules = mapping.rules.filter((rule) => rule.objects.has(object));
  const [first] = rules;
  if (first === undefined) {
    if (mapping.ignore.has(object)) return { kind: "ignored" };
    const known = new Set(mapping.rules.flatMap((rule) => [...rule.objects]));
    return unmappable(undefined, [
      {
        field: "object",
        rule: `must have a rule in the mapping (${[...known].join(", ")}), or be listed under \`ignore\``,
        kind: `the object ${event.object.slice(0, 50)}`,
      },
    ]);
  }
  const rule = await chooseRule(rules, event, record, watch);
  if (rule !== undefined && "problem" in rule) return unmappable(undefined, [rule.problem]);
  // A deletion does not depend on `when`: the service may have the record from an earlier time.
  if (rule === undefined && event.type !== "crm.record.deleted") return { kind: "ignored" };
  // A deletion may come with a part of the record, so `when` may match no rule.
  return mapByRule(rule ?? first, event, record, options, watch);
}

async function chooseRule(
  rules: readonly CompiledRule[],
  event: EventContext,
  record: CrmRecord | undefined,
  watch: Watch,
): Promise<CompiledRule | { readonly problem: Problem } | undefined> {
  for (const rule of rules) {
    if (rule.when === undefined || record === undefined) return rule;
    watch("when");
    try {
      const holds = await rule.when.evaluate(record, event);
      if (holds === true) return rule;
      if (holds === false || holds === undefined || holds === null) continue;
      return { problem: { field: "when", rule: "must give true or false", kind: kindOf(holds) } };
    } catch (error) {
      return { problem: { field: "when", rule: failureOf(error), kind: "the record" } };
    }
  }
  return undefined;
}

async function mapByRule(
  rule: CompiledRule,
  event: EventContext,
  record: CrmRecord | undefined,
  options: MapOptions,
  watch: Watch,
): Promise<MappingResult> {
  watch("crmCode");
  const key = await keyOf(rule.crmCode, event, record);
  if (typeof key !== "string") return unmappable(undefined, [key]);
  return mapFields(rule.fields, key, event, record, options, watch);
}

async function keyOf(
  expression: Expression,
  event: EventContext,
  record: CrmRecord | undefined,
): Promise<string | Problem> {
  let key: unknown;
  try {
    key = await expression.evaluate(record, event);
  } catch (error) {
    return { field: "crmCode", rule: `cannot be made: ${failureOf(error)}`, kind: kindOf(record) };
  }
  if (Number.isSafeInteger(key)) key = String(key);
  const parsed = crmCodeSchema.safeParse(key);
  if (parsed.success) return parsed.data;
  const problem = problemsOf(parsed.error, key)[0];
  const lacksRecord = record === undefined && key === undefined;
  return {
    field: "crmCode",
    rule: lacksRecord
      ? "cannot be made without a record: make it from $event.recordId in the mapping, or send the record"
      : (problem?.rule ?? "is required"),
    kind: kindOf(key),
  };
}
