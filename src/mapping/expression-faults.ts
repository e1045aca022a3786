/** What a mapping must not do in an expression, although JSONata can. */
import type { Survey } from "./expression-tree.ts";
import type { EventContext } from "./mapping.ts";
import { nearest } from "./nearest.ts";

/** Functions that are not allowed: a result that differs each time would cost requests. */
const FORBIDDEN: Readonly<Record<string, string>> = {
  eval: "it would run text from the record",
  now: "the result must not depend on the time of evaluation",
  millis: "the result must not depend on the time of evaluation",
  random: "the result must be the same each time",
  shuffle: "the result must be the same each time",
};

const BUILT_IN = new Set(
  `sum count max min average string substring substringBefore substringAfter lowercase uppercase
  length trim pad match contains replace split join formatNumber formatBase formatInteger
  parseInteger number floor ceil round abs sqrt power boolean not map zip filter single reduce
  sift keys lookup append exists spread merge reverse each error assert type sort distinct
  base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent decodeUrl fromMillis
  toMillis clone`.split(/\s+/),
);

const EVENT_FIELDS: Readonly<Record<Exclude<keyof EventContext, "partial">, true>> = {
  recordId: true,
  object: true,
  subject: true,
  type: true,
  source: true,
};

/** @param given the variables that the expression may read, without the dollar sign. */
export function faultsOf(
  parts: Survey,
  given: readonly string[],
  { key, condition }: { readonly key?: boolean; readonly condition?: boolean },
): string[] {
  const faults: string[] = [];
  if (condition === true && parts.operators.has("!=")) {
    faults.push(
      "a != b is false if a is missing, so such records would be left out: write $not(a = b)",
    );
  }
  const quoted = [...parts.names].find((name) => /[“”„«»]/.test(name));
  if (quoted !== undefined) {
    faults.push(`${quoted} has typographic quotes: put texts in straight quotes, "…"`);
  }
  if (parts.addsText) faults.push("+ adds numbers: join texts with &");
  const differs = parts.readsField || ["event", "", "$"].some((name) => parts.variables.has(name));
  if (key === true && !differs) {
    faults.push(
      "it is the same for every record: use the record's id, for example $event.recordId",
    );
  }
  if (parts.comparesNull) {
    faults.push("null in the record counts as missing here: write $exists(a), or $not($exists(a))");
  }
  if (given.includes("event") && !parts.bound.has("event"))
    faults.push(...[...parts.ofEvent].flatMap(eventFault));
  for (const name of parts.variables) faults.push(...variableFault(name, parts.bound, given));
  return faults;
}

function eventFault(name: string): string[] {
  if (Object.hasOwn(EVENT_FIELDS, name)) return [];
  const names = Object.keys(EVENT_FIELDS);
  const near = nearest(name, names);
  const meant = near === undefined ? `it has ${names.join(", ")}` : `did you mean ${near}?`;
  return [`$event has no ${name}; ${meant}`];
}

function variableFault(
  name: string,
  bound: ReadonlySet<string>,
  given: readonly string[],
): string[] {
  const why = Object.hasOwn(FORBIDDEN, name) ? FORBIDDEN[name] : undefined;
  if (why !== undefined) return [`$${name} is not allowed: ${why}`];
  if (BUILT_IN.has(name) || bound.has(name) || given.includes(name) || /^\$?$/.test(name))
    return [];
  const near = nearest(name, [...BUILT_IN, ...bound, ...given]);
  const meant =
    near === undefined
      ? `; write a field of this name in backticks, \`$${name}\` (functions: https://docs.jsonata.org)`
      : `; did you mean $${near}?`;
  return [`there is no $${name}${meant}`];
}
