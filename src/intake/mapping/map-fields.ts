/** Maps the fields of one record, one by one, to a candidate with warnings or problems. */
import { variantOf, type Variant } from "../../core/service-spec/business-relation.ts";
import { COMPANY_TYPES, PERSON_TYPE } from "../../core/service-spec/value-lists.ts";
import { kindOf, type Problem } from "../../core/event/problem.ts";
import { FIELD_MAX_LENGTH } from "../../core/sync/mapped.ts";
import type { AbsentRead } from "./absent-fields.ts";
import type { CompiledField } from "./compile-mapping.ts";
import type { TenantLists, TenantFieldConfig } from "../../core/service-spec/tenant-lists.ts";
import { failureOf } from "./expression-errors.ts";
import type { FieldPath } from "./expression-tree.ts";
import { REQUIRED_FIELDS, ruleOf } from "./fields.ts";
import {
  WARNING_REASONS,
  type CrmRecord,
  type EventContext,
  type MapOptions,
  type MappingResult,
  type MappingWarning,
  textOf,
  warningOf,
} from "./mapping.ts";
import { normalise, type ValueWarning, type Normalised } from "./normalise/normalise.ts";
import { lookUp } from "./compare-texts.ts";

/** Called with the name of each expression before it is evaluated, to name one that never ends. */
export type Watch = (field: string) => void;

export interface MapFieldsOptions extends MapOptions {
  /** The tenant's; without them, every value counts as listed. */
  readonly lists?: TenantLists;
}

/** What is mapped. */
export interface Given {
  readonly event: EventContext;
  readonly record: CrmRecord | undefined;
  readonly options: MapFieldsOptions;
  readonly watch: Watch;
  /** Of a record that may lack fields. */
  readonly absentRead: AbsentRead;
  /** Whether the record as it came has nothing at this path, not even an empty value. */
  readonly lacks: (path: FieldPath) => boolean;
}

/** @param fields with `type` first, because it decides which fields exist. */
export async function mapFields(
  fields: readonly CompiledField[],
  crmCode: string,
  given: Given,
): Promise<MappingResult> {
  const { record } = given;
  if (record === undefined) return { kind: "mapped", crmCode, candidate: undefined, warnings: [] };
  const scope: Scope = { ...given, record, candidate: {}, warnings: [], problems: [] };
  const { candidate, warnings, problems } = scope;
  const typeField = fields[0]?.name === "type" ? fields[0] : undefined;
  const others = typeField === undefined ? fields : fields.slice(1);
  if (typeField !== undefined) await mapField(typeField, undefined, true, scope);
  const variant = variantOf(candidate["type"]);
  if (variant === undefined) {
    const one = [PERSON_TYPE, ...COMPANY_TYPES].join(", ");
    const missing = { field: "type", rule: `must be one of ${one}`, kind: "nothing" };
    return unmappable(crmCode, problems.length > 0 ? problems : [missing], warnings);
  }
  for (const field of others) {
    await mapField(field, variant, REQUIRED_FIELDS[variant].includes(field.name), scope);
  }
  for (const name of REQUIRED_FIELDS[variant]) {
    const isMapped = others.some((field) => field.name === name);
    if (!isMapped) problems.push({ field: name, rule: "is required", kind: "nothing" });
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

interface Scope extends Given {
  readonly record: CrmRecord;
  readonly candidate: Record<string, unknown>;
  readonly warnings: MappingWarning[];
  readonly problems: Problem[];
}

async function mapField(
  field: CompiledField,
  variant: Variant | undefined,
  isRequired: boolean,
  scope: Scope,
): Promise<void> {
  const { name } = field;
  scope.watch(name);
  const warnings: ValueWarning[] = [];
  const rule = variant === undefined ? undefined : ruleOf(name, variant);
  const exists = variant === undefined || rule !== undefined;
  const list = exists ? scope.options.lists?.get(name) : undefined;
  const unlisted: unknown[] = [];
  const fit: Fit = (found) => {
    const fitted = list === undefined ? { value: found, warnings: [] } : fitToList(found, list);
    if (found !== undefined && fitted.value === undefined) unlisted.push(found);
    warnings.push(...fitted.warnings);
    return fitted.value;
  };
  const value =
    fit(field.constant) ?? (await valueOf(field, scope, warnings, fit)) ?? fit(field.fallback);
  // The check of the payload rejects it, so that the record is redriven once the list has the value.
  if (value === undefined && unlisted.length > 0 && (field.required || list?.isRequired)) {
    scope.candidate[name] = unlisted[0];
    return;
  }
  if (value !== undefined && exists) {
    const accepted = accept(value, rule, warnings);
    if (accepted !== undefined) scope.candidate[name] = accepted;
  }
  if (value !== undefined && !exists) warnings.push({ reason: "unknown_field", value });
  const isThere = scope.candidate[name] !== undefined;
  if (!isThere && exists && (isRequired || field.required)) {
    const [first] = warnings;
    const isValue = first?.reason !== "expression_failed" && first?.reason !== "not_carried";
    const why = first === undefined ? "" : `: ${WARNING_REASONS[first.reason]}`;
    const found = isValue ? first?.value : undefined;
    const names = first?.reason === "not_carried" ? ` (${String(first.value)})` : "";
    const when = field.kept ? " to create the relation" : "";
    scope.problems.push({
      field: name,
      rule: `is required${when}${why}${names}`,
      kind: `${kindOf(found)}${first === undefined ? lackedBy(field, scope) : ""}`,
    });
    return;
  }
  for (const { reason, value } of distinct(warnings)) {
    scope.warnings.push(warningOf(name, reason, value, scope.options));
  }
}

/** Names what the field is made of if the record has none of it: the mapping may name it wrongly. */
function lackedBy({ sources }: CompiledField, { lacks }: Scope): string {
  const paths = sources.flatMap((source) => source.paths);
  if (paths.length === 0 || !paths.every(lacks)) return "";
  const names = new Set(paths.map((path) => `\`${path.join(".")}\``));
  return `: the mapping reads ${[...names].join(", ")}, which the record lacks`;
}

/** Without repetitions: two sources or two items of a list may give the same warning. */
const distinct = (warnings: readonly ValueWarning[]): ValueWarning[] => [
  ...new Map(warnings.map((one) => [`${one.reason} ${textOf(one.value)}`, one])).values(),
];

/** The value as the tenant's list spells it; undefined: the list does not allow it, which is noted. */
type Fit = (value: unknown) => unknown;

async function valueOf(
  field: CompiledField,
  scope: Scope,
  warnings: ValueWarning[],
  fit: Fit,
): Promise<unknown> {
  const { event, record, candidate } = scope;
  const country = ["countryOfResidence", "countryOfOperation", "fiscalCountry"]
    .map((name) => candidate[name])
    .find((code) => typeof code === "string");
  const wanted = { ...field.wanted, country: country ?? field.wanted.country };
  const absent: string[] = [];
  for (const source of field.sources) {
    let raw: unknown;
    scope.absentRead();
    try {
      raw = await source.evaluate(record, event);
    } catch (error) {
      const why = failureOf(error, true)
        .replace("the expression failed", "")
        .replace(/^: | (?=at )/, "");
      warnings.push({ reason: "expression_failed", value: why });
      continue;
    }
    const normalised = normalise(raw, wanted);
    warnings.push(...normalised.warnings);
    const fitted = fit(normalised.value);
    const lacked = scope.absentRead();
    if (fitted === undefined || source.joins) absent.push(...lacked);
    if (fitted === undefined) continue;
    warnings.push(...notCarried(source.joins ? lacked : []));
    return fitted;
  }
  warnings.push(...notCarried(absent));
  return undefined;
}

const notCarried = (names: readonly string[]): ValueWarning[] =>
  names.length === 0 ? [] : [{ reason: "not_carried", value: [...new Set(names)].join(", ") }];

/** The value if it keeps the spec's rule of the field; otherwise adds a warning. */
function accept(
  value: unknown,
  rule: ReturnType<typeof ruleOf>,
  warnings: ValueWarning[],
): unknown {
  const length = [value].flat().reduce<number>((sum, one) => sum + String(one).length, 0);
  const isShort = length <= FIELD_MAX_LENGTH;
  if (isShort && (rule === undefined || rule.safeParse(value).success)) return value;
  warnings.push({ reason: "not_accepted", value });
  return undefined;
}

/** The value, or the items of it, as the tenant's list spells them; undefined: the list allows none. */
function fitToList(
  value: unknown,
  { lost, multiSelect, values }: TenantFieldConfig,
): Pick<Normalised, "warnings"> & { readonly value: unknown } {
  const left: unknown[] = [];
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  const found = items.flatMap((item) => {
    if (item === undefined) return [];
    const listed = values === undefined ? item : lookUp(textOf(item), values);
    if (listed === undefined) left.push(item);
    return listed === undefined ? [] : [listed];
  });
  // Two spellings of one value are one value.
  const fitted = [...new Set(found)];
  const isTooMany = fitted.length > 1 && !multiSelect;
  const isUsable = fitted.length > 0 && !isTooMany;
  const wasListed = (item: unknown) =>
    lost === "any" || (lost !== undefined && lookUp(textOf(item), lost) !== undefined);
  const warnings = left.map((item) => ({
    reason:
      isUsable && wasListed(item) ? ("no_longer_listed" as const) : ("not_in_tenant_list" as const),
    value: item,
  }));
  if (isTooMany) {
    return { value: undefined, warnings: [...warnings, { reason: "too_many", value: fitted }] };
  }
  if (!isUsable) return { value: undefined, warnings };
  return { value: Array.isArray(value) ? fitted : fitted[0], warnings };
}
