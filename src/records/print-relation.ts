/** A listed relation as a line, as JSON, and as a row of CSV. */
import { csvLine } from "../base/csv-line.ts";
import { printable } from "../base/printable.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import type { RelationState } from "./list-relations.ts";

const isoOrNull = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(ms).toISOString();

/** Times are ISO 8601 in UTC; null: not known, or none. */
export const documentOf = (one: RelationState) => ({
  crmCode: one.crmCode ?? null,
  record: one.record ?? null,
  type: one.type ?? null,
  state: one.state,
  also: one.also,
  since: isoOrNull(one.since),
  why: one.why,
  next: one.next,
  confirmedAt: isoOrNull(one.confirmedAt),
  confirmedBy: one.confirmedBy ?? null,
  owner: one.owner ?? null,
  source: one.source ?? null,
});

const NOTHING = {} as RelationState;

/** With a mark of its encoding, which table programs need. */
export const CSV_HEAD = `\ufeff${csvLine(Object.keys(documentOf(NOTHING)))}`;

export const csvOf = (one: RelationState): string =>
  csvLine(Object.values({ ...documentOf(one), also: one.also.join(", ") }));

/** `4711 (contact/7)  held since 2026-11-12T02:00:00Z: why. Next step.` */
export function lineOf(one: RelationState): string {
  const { also, confirmedAt, confirmedBy, crmCode, next, record, since, state, why } = one;
  const name = [crmCode, record].filter((part) => part !== undefined);
  const states = [state, ...also.map((other) => `also ${other}`)].join(", ");
  const from =
    since === undefined || state === "on the service" ? "" : ` since ${clockTime(since)}`;
  const proof =
    confirmedAt === undefined ? "" : `, confirmed ${clockTime(confirmedAt)} (${confirmedBy})`;
  const says = [why === "" ? "" : `: ${why.replace(/\.$/, "")}`, next === "" ? "" : `. ${next}`];
  const [first = "(no crmCode)", ...more] = name;
  const named = `${first}${more.length === 0 ? "" : ` (${more.join(" ")})`}`;
  return printable(`${named}  ${states}${from}${proof}${says.join("")}`);
}
