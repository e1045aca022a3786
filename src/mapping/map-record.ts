/** One record through a compiled mapping: the rule that fits, its key, its fields one by one. */
import { crmCodeSchema, variantOf, type Variant } from "../service-spec/business-relation.ts";
import { FIELD_MAX_LENGTH } from "../service-spec/limits.ts";
import { kindOf, problemsOf, type Problem } from "../sync/problem.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../service-spec/value-lists.ts";
import { withoutNulls } from "./clean.ts";
import type { CompiledField, CompiledMapping, CompiledRule } from "./compile-mapping.ts";
import { failureOf, type Expression } from "./compile-expression.ts";
import { REQUIRED_FIELDS, ruleOf } from "./fields.ts";
import {
  WARNING_REASONS,
  type CrmRecord,
  type EventContext,
  type MapOptions,
  type MappingResult,
  type MappingWarning,
} from "./mapping.ts";
import { normalise, type Refused } from "./normalise/normalise.ts";

/** Told which field is about to be evaluated, for whoever must name the one that never ended. */
export type Watch = (field: string) => void;

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
        rule: `must be one that the mapping has a rule for (${[...known].join(", ")}), or lists under \`ignore\``,
        kind: `the object ${event.object.slice(0, 50)}`,
      },
    ]);
  }
  const rule = await choose(rules, event, record, watch);
  if (rule !== undefined && "problem" in rule) return unmappable(undefined, [rule.problem]);
  // What is deleted is taken back whether or not it would be sent today.
  if (rule === undefined && event.type !== "crm.record.deleted") return { kind: "ignored" };
  // A deletion comes with whatever is left of the record, or nothing.
  return mapBy(rule ?? first, event, record, options, watch);
}

async function choose(
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

async function mapBy(
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

/** @param fields `type` first. */
export async function mapFields(
  fields: readonly CompiledField[],
  crmCode: string,
  event: EventContext,
  record: CrmRecord | undefined,
  options: MapOptions,
  watch: Watch = () => {},
): Promise<MappingResult> {
  if (record === undefined) return { kind: "mapped", crmCode, candidate: undefined, warnings: [] };
  const scope: Scope = { event, record, candidate: {}, warnings: [], problems: [], options, watch };
  const { candidate, warnings, problems } = scope;
  const [typeField, ...others] = fields[0]?.name === "type" ? fields : [undefined, ...fields];
  if (typeField !== undefined) await mapField(typeField, undefined, true, scope);
  const variant = variantOf(candidate["type"]);
  if (variant === undefined) {
    const one = [PERSON_TYPE, ...COMPANY_TYPES].join(", ");
    const missing = { field: "type", rule: `must be one of ${one}`, kind: "nothing" };
    return unmappable(crmCode, problems.length > 0 ? problems : [missing], warnings);
  }
  for (const field of others) {
    if (field === undefined) continue;
    await mapField(field, variant, REQUIRED_FIELDS[variant].includes(field.name), scope);
  }
  for (const name of REQUIRED_FIELDS[variant]) {
    const isTold = others.some((field) => field?.name === name);
    if (!isTold) problems.push({ field: name, rule: "is required", kind: "nothing" });
  }
  if (problems.length > 0) return unmappable(crmCode, problems, warnings);
  if (variant === "Person") {
    candidate["name"] ??= `${String(candidate["firstName"])} ${String(candidate["lastName"])}`;
  }
  return { kind: "mapped", crmCode, candidate: { ...candidate, crmCode }, warnings };
}

export const unmappable = (
  crmCode: string | undefined,
  problems: readonly Problem[],
  warnings: readonly MappingWarning[] = [],
): MappingResult => ({ kind: "unmappable", crmCode, problems, warnings });

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
  const alone = record === undefined && key === undefined;
  return {
    field: "crmCode",
    rule: alone
      ? "cannot be made without a record: let the mapping make it from $event.recordId, or send the record"
      : (problem?.rule ?? "is required"),
    kind: kindOf(key),
  };
}

interface Scope {
  readonly event: EventContext;
  readonly record: CrmRecord;
  readonly candidate: Record<string, unknown>;
  readonly warnings: MappingWarning[];
  readonly problems: Problem[];
  readonly options: MapOptions;
  readonly watch: Watch;
}

async function mapField(
  field: CompiledField,
  variant: Variant | undefined,
  isRequired: boolean,
  scope: Scope,
): Promise<void> {
  const { name } = field;
  scope.watch(name);
  const refused: Refused[] = [];
  const value = field.constant ?? (await valueOf(field, scope, refused)) ?? field.fallback;
  const rule = variant === undefined ? undefined : ruleOf(name, variant);
  const exists = variant === undefined || rule !== undefined;
  if (value !== undefined && exists) {
    const accepted = accept(value, rule, refused);
    if (accepted !== undefined) scope.candidate[name] = accepted;
  }
  if (value !== undefined && !exists) refused.push({ reason: "unknown_field", value });
  const isThere = scope.candidate[name] !== undefined;
  if (!isThere && exists && (isRequired || field.required)) {
    const [first] = refused;
    const why = first === undefined ? "" : `: ${WARNING_REASONS[first.reason]}`;
    const lost = first?.reason === "expression_failed" ? undefined : first?.value;
    scope.problems.push({ field: name, rule: `is required${why}`, kind: kindOf(lost) });
    return;
  }
  for (const { reason, value } of distinct(refused)) {
    const explained = scope.options.explain === true && value !== undefined;
    scope.warnings.push({
      field: name,
      reason,
      ...(explained && { value: typeof value === "string" ? value : JSON.stringify(value) }),
    });
  }
}

/** What two sources or two items of a list gave alike is told once. */
const distinct = (refused: readonly Refused[]): Refused[] => [
  ...new Map(refused.map((one) => [`${one.reason} ${JSON.stringify(one.value)}`, one])).values(),
];

async function valueOf(field: CompiledField, scope: Scope, refused: Refused[]): Promise<unknown> {
  const { event, record, candidate } = scope;
  const country = ["countryOfResidence", "countryOfOperation", "fiscalCountry"]
    .map((name) => candidate[name])
    .find((code) => typeof code === "string");
  const wanted = { ...field.wanted, country: country ?? field.wanted.country };
  for (const source of field.sources) {
    let raw: unknown;
    try {
      raw = await source.evaluate(record, event);
    } catch (error) {
      const why = failureOf(error, true)
        .replace("the expression failed", "")
        .replace(/^: | (?=at )/, "");
      refused.push({ reason: "expression_failed", value: why });
      continue;
    }
    const normalised = normalise(raw, wanted);
    refused.push(...normalised.refused);
    if (normalised.value !== undefined) return normalised.value;
  }
  return undefined;
}

/** The spec's own rule has the last word. */
function accept(value: unknown, rule: ReturnType<typeof ruleOf>, refused: Refused[]): unknown {
  const length = [value].flat().reduce<number>((sum, one) => sum + String(one).length, 0);
  const isShort = length <= FIELD_MAX_LENGTH;
  if (isShort && (rule === undefined || rule.safeParse(value).success)) return value;
  refused.push({ reason: "not_accepted", value });
  return undefined;
}
