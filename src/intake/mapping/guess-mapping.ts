/** Writes a mapping file for a sample record, by the names of its fields. It contains no value of the record. */
import { isObject } from "../../core/event/problem.ts";
import { stringify } from "yaml";
import { ruleOf, traitsOf } from "./fields.ts";
import { fieldOfLongName, fieldOfName } from "./common-names.ts";
import { compileMapping } from "./compile-mapping.ts";
import { mapRecord } from "./map-record.ts";
import { WARNING_REASONS, type CrmRecord } from "./mapping.ts";
import { readMappingFile } from "./read-mapping-file.ts";

export interface Sample {
  readonly record: CrmRecord;
  /** The file, for the comments. */
  readonly from: string;
  /** Undefined: contact for a person, otherwise company. */
  readonly object: string | undefined;
  /** The address of the schema of mapping files. */
  readonly schema: string;
}

interface Leaf {
  /** As JSONata reads it: `emails[0].value`. */
  readonly path: string;
  readonly name: string;
}

interface Guess {
  readonly text: string;
  /** The object that it maps. */
  readonly object: string;
  /** It seems to hold the record's id. */
  readonly idField: string | undefined;
  /** Fields that the service requires and of which nothing is in the record: a person must write them. */
  readonly lacks: readonly string[];
}

export async function guessMapping({ from, object, record, schema }: Sample): Promise<Guess> {
  const leaves = [...leavesOf(record)];
  const guessed = guessFields(leaves);
  const isPerson = guessed.has("firstName") || guessed.has("lastName") || guessed.has("birthDate");
  const name = object ?? (isPerson ? "contact" : "company");
  const idField = leaves.find(({ name: one, path }) => ID.test(one) && path === one)?.name;
  const fields = isPerson ? personFields(guessed) : guessed;
  const variant = isPerson ? "Person" : "Company";
  const wanted = [...fields].filter(([field]) => ruleOf(field, variant) !== undefined);
  const begin = `# yaml-language-server: $schema=${schema}
#
# Guessed from the names of the fields in ${from}: check each line. docs/mapping.md explains them.
version: 1

objects:
  - object: ${name}
    # The key at the service: it must never change.${idHint(idField)}
    crmCode: '"${name}-" & $event.recordId'
    fields:
      type: { value: ${variant} }
`;
  const lineOf = ([field, path]: readonly [string, string]) =>
    `      ${field}: ${stringify(path, { lineWidth: 0 })}`;
  // Without them the service takes no record, so this file with all of its lines would be a mistake.
  const required = (isPerson ? ["firstName", "lastName"] : ["name"]).map(
    (one) => [one, one] as const,
  );
  const lacks = required.map(([field]) => field).filter((field) => !fields.has(field));
  const lines = [...new Map([...required, ...wanted])].map(lineOf);
  // By the name of the record it would be read as JSON.
  const file = compileMapping(readMappingFile(begin + lines.join(""), "mapping.yaml"));
  const subject = `${name}/1`;
  const event = { type: "crm.record.updated", source: "/", subject, object: name, recordId: "1" };
  const mapped = await mapRecord(file, event, record);
  const warnings = mapped.kind === "ignored" ? [] : mapped.warnings;
  const reasons = new Map(
    warnings
      .filter(({ reason }) => reason !== "kept_as_is" && reason !== "suspicious")
      .map((one) => [one.field, one.reason]),
  );
  const checked = wanted.map((one) => {
    const reason = reasons.get(one[0]);
    if (reason === undefined) return lineOf(one);
    const help = traitsOf(one[0]).values === undefined ? "" : "; a `table` can translate it";
    return `      # Left out: ${WARNING_REASONS[reason]}${help}.\n      # ${lineOf(one).trimStart()}`;
  });
  const missing = lacks.map(
    (field) =>
      `      # The service needs ${field}, and no field of the record has a usual name of it.\n      # ${field}: FIELD\n`,
  );
  const used = new Set(
    [idField, ...fields.values()].map((path) => path?.replace(WHOLE_NAME, "$1")),
  );
  const unused = leaves.flatMap(({ path }) => (used.has(path) ? [] : [`#   ${path}\n`]));
  const end = unused.length === 0 ? "" : `\n# Not used of the record:\n${unused.join("")}`;
  const text = begin + [...missing, ...checked].join("") + end;
  return { text, object: name, idField, lacks };
}

/** Names of the field that holds a record's id, with those of spreadsheets. */
const ID =
  /^(?:id|uuid|guid|no|nr|number|nummer|(?:customer|client|contact|person|kunden|kontakt)[ _-]?(?:id|no|nr|number|nummer))$/i;

/** The commands find an `id` by themselves. */
const idHint = (field = "FIELD"): string =>
  /^id$/i.test(field)
    ? ""
    : `\n    # Records in files need --id-from ${field} in preview and reconcile.`;

const WHOLE_NAME = /^\$\w+\((.*), " "\)$/;

/** A person needs both names; where the record has one name only, its first word is the first name. */
function personFields(guessed: ReadonlyMap<string, string>): Map<string, string> {
  const { name, ...others } = Object.fromEntries(guessed);
  const isWhole = name !== undefined && !guessed.has("firstName") && !guessed.has("lastName");
  const names = isWhole
    ? { firstName: `$substringBefore(${name}, " ")`, lastName: `$substringAfter(${name}, " ")` }
    : {};
  return new Map(Object.entries({ ...names, ...others }));
}

/** The meaning of a CRM's own status cannot be guessed. `type` is Person if there are names of a person. */
const NEVER_GUESSED = new Set(["relationStatus", "type"]);

/** By field of the service: the first leaf of that name, one of exactly that name before others. */
function guessFields(leaves: readonly Leaf[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const fieldOf of [fieldOfName, fieldOfLongName]) {
    for (const { name, path } of leaves) {
      const field = fieldOf(name) ?? (name.endsWith("s") ? fieldOf(name.slice(0, -1)) : undefined);
      const isNew = field !== undefined && !found.has(field) && ![...found.values()].includes(path);
      if (isNew && !NEVER_GUESSED.has(field)) found.set(field, path);
    }
  }
  return found;
}

const MAX_DEPTH = 4;

/** Keys that say nothing beside the name of what they are in: `emails[0].value`. */
const GENERIC = /^(?:value|text|label)$/i;

function* leavesOf(value: unknown, path = "", name = "", depth = 0): Generator<Leaf> {
  if (Array.isArray(value)) {
    if (value.length > 0) yield* leavesOf(value[0], `${path}[0]`, name, depth + 1);
  } else if (isObject(value)) {
    if (depth > MAX_DEPTH) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key.includes("`")) continue;
      const step = IDENTIFIER.test(key) && !RESERVED.test(key) ? key : `\`${key}\``;
      // Pipedrive's `label` beside a text says which e-mail it is: `work`.
      const isKind = key === "label" && typeof value["value"] === "string";
      const own = GENERIC.test(key) && !isKind && name !== "" ? name : key;
      yield* leavesOf(inner, path === "" ? step : `${path}.${step}`, own, depth + 1);
    }
  } else yield { path, name };
}

const IDENTIFIER = /^[\p{L}_][\p{L}\p{N}_]*$/u;
const RESERVED = /^(?:and|or|in|true|false|null|function)$/;
