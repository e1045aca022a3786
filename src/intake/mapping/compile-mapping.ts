/** Compiles a mapping file: its expressions and its tables. */
import { compileExpression, type Expression } from "./compile-expression.ts";
import { FIELD_NAMES, traitsOf } from "./fields.ts";
import { finderOf } from "./compare-texts.ts";
import { keepOf } from "./keeps-of-mapping.ts";
import {
  goneRulesOf,
  objectsOf,
  relationsOfFile,
  tableOf,
  type FieldRule,
  type MappingFile,
  type ObjectRule,
} from "./mapping-file.ts";
import type { Relation } from "../../core/sync/mapped.ts";
import type { FieldSources } from "./mapping.ts";
import { fingerprintOf } from "./whens.ts";
import type { Scalar, Wanted } from "./normalise/normalise.ts";

export interface CompiledField {
  readonly name: string;
  /** `from`, then `fallback`: tried in this order. */
  readonly sources: readonly Expression[];
  readonly constant: Constant | undefined;
  readonly fallback: Constant | undefined;
  readonly required: boolean;
  /** Others maintain it at the service. */
  readonly kept: boolean;
  readonly wanted: Wanted;
}

/** The earliest plausible year of birth. */
const FIRST_BIRTH = 1900;

type Constant = Scalar | readonly string[];

export interface CompiledRule {
  readonly objects: ReadonlySet<string>;
  readonly when: Expression | undefined;
  readonly onLeave: "keep" | "terminate";
  readonly crmCode: Expression;
  /** The mapping says itself which ids its records have. */
  readonly ownIds: boolean;
  readonly owner: Expression | undefined;
  /** Names under which its related records stand in the record. */
  readonly related: readonly string[];
  /** `type` comes first, because it decides which fields exist; telephone numbers come last. */
  readonly fields: readonly CompiledField[];
}

export interface CompiledMapping {
  readonly ignore: ReadonlySet<string>;
  readonly rules: readonly CompiledRule[];
  /** Names of the record's fields that the expressions read. */
  readonly names: ReadonlySet<string>;
  readonly relations: readonly Relation[];
  readonly sources: readonly FieldSources[];
  /** By object, in lower case: what histories say of the `when` of its rules. */
  readonly whens: ReadonlyMap<string, string>;
}

export function compileMapping(file: MappingFile): CompiledMapping {
  const names = new Set<string>();
  const compile = (text: string, key = false): Expression => {
    const expression = compileExpression(text, { key });
    for (const name of expression.names) names.add(name);
    return expression;
  };
  const rules = file.objects.map((rule) => compileRule(rule, file, compile));
  const ignore = new Set((file.ignore ?? []).map((object) => object.toLowerCase()));
  const sources = rules.flatMap(sourcesOf);
  const relations = relationsOfFile(file);
  for (const { by = "", of = "" } of relations) {
    for (const name of [...by.split("."), ...of.split(".")]) if (name !== "") names.add(name);
  }
  for (const { field } of goneRulesOf(file)) names.add(field.split(".")[0] ?? field);
  return { ignore, rules, names, relations, sources, whens: whensByObject(file) };
}

function sourcesOf({ crmCode, fields, objects, when }: CompiledRule): FieldSources[] {
  const made = [
    { name: "when", sources: when === undefined ? [] : [when] },
    { name: "crmCode", sources: [crmCode] },
    ...fields.filter(({ constant }) => constant === undefined),
  ];
  return made
    .filter(({ sources }) => sources.length > 0)
    .map(({ name, sources }) => {
      return { field: name, objects: [...objects], sources: sources.map(({ paths }) => paths) };
    });
}

function whensByObject({ objects }: MappingFile): ReadonlyMap<string, string> {
  const texts = new Map<string, string[]>();
  for (const rule of objects) {
    if (rule.when === undefined) continue;
    for (const object of objectsOf(rule)) {
      texts.set(object, [...(texts.get(object) ?? []), rule.when]);
    }
  }
  return new Map([...texts].map(([object, whens]) => [object, fingerprintOf(whens)]));
}

function compileRule(
  rule: ObjectRule,
  file: MappingFile,
  compile: (text: string, key?: boolean) => Expression,
): CompiledRule {
  // A telephone number without a prefix needs the record's country, so countries come first.
  const rank = (name: string) => (name === "type" ? 0 : traitsOf(name).form === "phone" ? 2 : 1);
  const fields = FIELD_NAMES.flatMap((name) => {
    const field = rule.fields[name];
    return field === undefined ? [] : [compileField(name, field, file, compile)];
  }).toSorted((a, b) => rank(a.name) - rank(b.name));
  return {
    objects: objectsOf(rule),
    when: rule.when === undefined ? undefined : compile(rule.when),
    onLeave: rule.onLeave ?? "keep",
    crmCode: compile(rule.crmCode, true),
    ownIds: rule.id !== undefined,
    owner: rule.owner === undefined ? undefined : compile(rule.owner),
    related: Object.keys(rule.with ?? {}),
    fields,
  };
}

function compileField(
  name: string,
  field: FieldRule,
  file: MappingFile,
  compile: (text: string) => Expression,
): CompiledField {
  const traits = traitsOf(name);
  const table = tableOf(field, file);
  const sources = [field.from, field.fallback].filter((text) => text !== undefined);
  return {
    name,
    sources: sources.map((text) => compile(text)),
    constant: constantOf(field.value, traits.form),
    fallback: constantOf(field.default, traits.form),
    required: field.required ?? false,
    kept: keepOf(field) !== undefined,
    wanted: {
      form: field.as ?? traits.form,
      values: traits.values,
      table: table && finderOf<Scalar | null>(Object.entries(table)),
      separator: field.separator,
      format: field.format,
      zone: field.zone,
      firstYear: name === "birthDate" ? FIRST_BIRTH : undefined,
      nothing: new Set((file.nothing ?? []).map((word) => word.toLowerCase())),
      country: field.country === "numeric" ? undefined : field.country,
      numeric: field.country === "numeric",
      languages: file.languages && finderOf(Object.entries(file.languages)),
    },
  };
}

function constantOf(value: FieldRule["value"], form: Wanted["form"]): Constant | undefined {
  if (value === undefined) return undefined;
  if (form === "list") return [value].flat().map(String);
  return typeof value === "number" ? String(value) : value;
}
