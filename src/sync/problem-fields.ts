/** The fields by which problems are counted and logged. A record may hold any name: those are `other`. */
import { FIELDS_OF } from "../service-spec/business-relation.ts";
import type { Problem } from "../event/problem.ts";

/** Attributes of an event. */
export const EVENT_FIELDS: readonly string[] =
  "specversion id source type subject time sequence lane data data.record data.merged data.fetch".split(
    " ",
  );

/** The service's fields, and what a mapping may reject beside them. */
export const RECORD_FIELDS: readonly string[] = [
  ...new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company, "object", "when"]),
];

const KNOWN: ReadonlySet<string> = new Set([...EVENT_FIELDS, ...RECORD_FIELDS]);

/** Each field that the problems name, once; "" for the whole. */
export function problemFields(problems: readonly Problem[]): string[] {
  const names = problems.map(({ field }) => field.replace(/\[\d+\]/g, ""));
  return [...new Set(names.map((name) => (name === "" || KNOWN.has(name) ? name : "other")))];
}
