/** How log lines and spans name what they may not reveal. */
import { createHash } from "node:crypto";
import { FIELD_NAMES } from "../src/mapping/fields.ts";
import type { Problem } from "../src/sync/problem.ts";

/** Attributes of an event, and what a mapping may reject beside the service's fields. */
const KNOWN: ReadonlySet<string> = new Set([
  ...FIELD_NAMES,
  ..."specversion id source type subject time sequence lane data".split(" "),
  ..."data.record data.merged crmCode object when".split(" "),
]);

/** A crmCode identifies a person. `printf %s CODE | sha256sum | cut -c1-12` gives the same hash. */
export const hashOf = (crmCode: string): string =>
  createHash("sha256").update(crmCode).digest("hex").slice(0, 12);

/** The fields that problems are about. Records may hold any names: unknown ones become `other`. */
export function fieldsOf(problems: readonly Problem[] | undefined): string[] | undefined {
  if (problems === undefined) return undefined;
  const names = problems.map(({ field }) => field.replace(/\[\d+\]/g, ""));
  return [...new Set(names.map((name) => (name === "" || KNOWN.has(name) ? name : "other")))];
}
