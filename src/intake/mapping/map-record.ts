/** Maps one record by a compiled mapping: finds its rule, makes its key, maps its fields. */
import { crmCodeSchema } from "../../core/service-spec/business-relation.ts";
import { cut } from "../../core/service-spec/characters.ts";
import type { IgnoreReason } from "../../core/sync/mapped.ts";
import { codeProblem } from "./record-ids.ts";
import { kindOf, problemsOf, type Problem } from "../../core/event/problem.ts";
import { watchAbsent } from "./absent-fields.ts";
import { withoutNulls } from "./clean.ts";
import type { CompiledMapping, CompiledRule } from "./compile-mapping.ts";
import { failureOf } from "./expression-errors.ts";
import type { FieldPath } from "./expression-tree.ts";
import {
  mapFields,
  unmappable,
  type Given,
  type MapFieldsOptions,
  type Watch,
} from "./map-fields.ts";
import type { CrmRecord, EventContext, MappingResult } from "./mapping.ts";
import { has } from "./unread-paths.ts";
import { pointerTo } from "./whens.ts";

export async function mapRecord(
  mapping: CompiledMapping,
  event: EventContext,
  given: CrmRecord | undefined,
  options: MapFieldsOptions = {},
  watch: Watch = () => {},
): Promise<MappingResult> {
  const record = given && (withoutNulls(given) as CrmRecord);
  const object = event.object.toLowerCase();
  const rules = mapping.rules.filter((rule) => rule.objects.has(object));
  const related = new Set(rules.flatMap((rule) => rule.related));
  const mayLack = event.partial === true || related.size > 0;
  const absentRead =
    given !== undefined && record !== undefined && mayLack
      ? watchAbsent(given, record, event.partial === true ? mapping.names : [], related)
      : () => [];
  const lacks = (path: FieldPath) => !has(given, path);
  const scope: Given = { event, record, options, watch, absentRead, lacks };
  const [first] = rules;
  if (first === undefined) {
    if (mapping.ignore.has(object)) return { kind: "ignored", reason: "object" };
    const known = new Set(mapping.rules.flatMap((rule) => [...rule.objects]));
    return unmappable(undefined, [
      {
        field: "object",
        rule: `must have a rule in the mapping (${[...known].join(", ")}), or be listed under \`ignore\``,
        kind: `the object ${cut(event.object, 50)}`,
      },
    ]);
  }
  const chosen = await chooseRule(rules, scope);
  switch (chosen.kind) {
    case "rule":
      return mapByRule(chosen.rule, scope);
    case "problem":
      return unmappable(undefined, [chosen.problem]);
    case "none":
      // A deletion does not depend on `when`: the service may have the record from an earlier time,
      // and what is left of the record may match no rule.
      return event.type === "crm.record.deleted"
        ? mapByRule(first, { ...scope, absentRead: () => [] })
        : ignore(rules, { ...chosen, fingerprint: mapping.whens.get(object) }, scope);
  }
}

/** The key, where it can be made, tells which relation and which dead letter the record had. */
async function ignore(
  rules: readonly CompiledRule[],
  { fingerprint = "", undecided }: Undecided & { readonly fingerprint: string | undefined },
  scope: Given,
): Promise<MappingResult> {
  const rule = rules.find(({ onLeave }) => onLeave === "terminate") ?? rules[0];
  const reason: IgnoreReason = undecided.length === 0 ? "when" : "when_undecided";
  const left = { kind: "ignored", reason, whens: pointerTo(fingerprint, undecided) } as const;
  if (rule === undefined) return left;
  const key = await keyOf(rule, scope);
  return typeof key === "string" ? { ...left, crmCode: key, onLeave: rule.onLeave } : left;
}

type Choice =
  | { readonly kind: "rule"; readonly rule: CompiledRule }
  | { readonly kind: "problem"; readonly problem: Problem }
  | ({ readonly kind: "none" } & Undecided);

/** Numbers of the object's rules whose `when` was neither true nor false. */
interface Undecided {
  readonly undecided: readonly number[];
}

async function chooseRule(
  rules: readonly CompiledRule[],
  { absentRead, event, record, watch }: Given,
): Promise<Choice> {
  const undecided: number[] = [];
  const absent: string[] = [];
  for (const [index, rule] of rules.entries()) {
    if (rule.when === undefined || record === undefined) return { kind: "rule", rule };
    watch("when");
    absentRead();
    try {
      const holds = await rule.when.evaluate(record, event);
      if (holds === true) return { kind: "rule", rule };
      absent.push(...absentRead());
      if (holds === undefined || holds === null) undecided.push(index);
      else if (holds !== false) {
        const mistake = { field: "when", rule: "must give true or false", kind: kindOf(holds) };
        return { kind: "problem", problem: mistake };
      }
    } catch (error) {
      const problem = { field: "when", rule: failureOf(error), kind: "the record" };
      return { kind: "problem", problem };
    }
  }
  if (absent.length > 0 && event.type !== "crm.record.deleted") {
    const names = [...new Set(absent)].join(", ");
    const rule = `cannot be decided, because the record came without ${names}; the CRM may still have a value there`;
    return { kind: "problem", problem: { field: "when", rule, kind: "the record" } };
  }
  return { kind: "none", undecided };
}

/** Also a record that cannot be mapped has an owner, who can correct it. */
async function mapByRule(rule: CompiledRule, scope: Given): Promise<MappingResult> {
  const { event, record, watch } = scope;
  const key = await keyOf(rule, scope);
  const mapped =
    typeof key === "string"
      ? await mapFields(rule.fields, key, scope)
      : unmappable(undefined, [key]);
  if (rule.owner === undefined || record === undefined || mapped.kind === "ignored") return mapped;
  watch("owner");
  const owner = ownerOf(await rule.owner.evaluate(record, event).catch(() => undefined));
  return owner === undefined ? mapped : { ...mapped, owner };
}

/** A longer text is no id. */
const OWNER_MAX = 200;

function ownerOf(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string") return undefined;
  const owner = text.trim();
  return owner === "" || owner.length > OWNER_MAX || !owner.isWellFormed() ? undefined : owner;
}

async function keyOf(
  { crmCode: expression, ownIds }: CompiledRule,
  { event, record, watch }: Given,
): Promise<string | Problem> {
  watch("crmCode");
  let key: unknown;
  try {
    key = await expression.evaluate(record, event);
  } catch (error) {
    return { field: "crmCode", rule: `cannot be made: ${failureOf(error)}`, kind: kindOf(record) };
  }
  if (Number.isSafeInteger(key)) key = String(key);
  const parsed = crmCodeSchema.safeParse(key);
  const unusable = parsed.success ? codeProblem(parsed.data, ownIds) : undefined;
  if (unusable !== undefined) return { field: "crmCode", rule: unusable, kind: kindOf(key) };
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
