/** What a finished comparison has found, in numbers. */
import type { Variant } from "../../core/service-spec/business-relation.ts";
import { DRIFT_KINDS, type DriftKind } from "../../core/sync/drift.ts";
import type { Encoding } from "../../intake/snapshot/scan-file.ts";
import { emptiedIn } from "./compare.ts";
import type { Ingested } from "./ingest.ts";
import type { Listed } from "./list-service.ts";
import { refusalText, type Refusal } from "./plan-record.ts";
import { fieldsIn, PLANNED, type RecordRow, type WorkFile } from "./work-file.ts";

/** Results that are no drift, and what they mean. */
export const AGREEING = {
  equal: "equal",
  newer: "changed since the snapshot was taken",
  waiting: "their change waits to be sent",
  ignored: "left out by the mapping",
  foreign:
    "active at the service, neither written by crmsync nor with a crmCode like those of the snapshot",
} as const;

type CountName = DriftKind | keyof typeof AGREEING;

/** Why records cannot be used, and how many. */
export interface Reason extends Refusal {
  readonly count: number;
}

/** What a comparison has found in one field, in relations. `compared` is the sum of the four after it. */
export interface FieldCount {
  readonly field: string;
  readonly variant: Variant;
  /** Relations of this type that the snapshot has, and that do not end. */
  readonly compared: number;
  readonly equal: number;
  /** The plan gives another value, or a first one; or takes the value away. */
  readonly changed: number;
  readonly emptied: number;
  /** The snapshot has nothing that could be used, and the service keeps its value. */
  readonly notUnderstood: number;
  /** The first crmCodes of those that are not equal. */
  readonly examples: readonly string[];
}

/** So many crmCodes are named of a field. */
const EXAMPLES = 3;

export interface Summary
  extends Omit<Ingested, "ignored" | "objects">, Pick<Listed, "active" | "relations"> {
  /** How the snapshot was read. */
  readonly encoding: Encoding;
  /** crmCodes of the snapshot, and those of them that the service lists. */
  readonly codes: number;
  readonly matched: number;
  /** Relations of the snapshot that the ledger is sure of, and that the service does not list. */
  readonly lacking: number;
  /** Active relations that the snapshot lacks, and that are not known as ours; with --include-foreign they count as `extra`. */
  readonly foreign: number;
  readonly counts: Readonly<Record<CountName, number>>;
  /** Fields that are not equal everywhere, by the type of the relations: the most frequent first. */
  readonly fields: readonly FieldCount[];
  readonly reasons: readonly Reason[];
}

export function summarise(
  work: WorkFile,
  ingested: Ingested,
  { active, relations }: Listed,
  more: Pick<Summary, "encoding" | "foreign" | "lacking">,
): Summary {
  const found: Record<string, number> = {};
  const tables = ["records WHERE kind NOT IN ('invalid', 'unmappable')", "rejects"];
  for (const table of tables) {
    const sql = `SELECT kind, count(*) AS n FROM ${table} GROUP BY kind`;
    // A second record of one crmCode is in both tables.
    for (const { kind, n } of work.all<{ kind: string; n: number }>(sql)) {
      if (table !== "rejects" || kind !== "duplicate") found[kind] = (found[kind] ?? 0) + n;
    }
  }
  const names = [...DRIFT_KINDS, ...Object.keys(AGREEING)];
  const counts = Object.fromEntries(names.map((name) => [name, found[name] ?? 0]));
  const { ignored, objects: _, ...read } = ingested;
  return {
    ...read,
    ...more,
    codes: work.count("SELECT count(position) AS n FROM records"),
    matched: work.count("SELECT count(was) AS n FROM records WHERE position IS NOT NULL"),
    relations,
    active,
    counts: { ...counts, ignored } as Summary["counts"],
    fields: fieldCounts(work),
    reasons: reasonsIn(work),
  };
}

/** A relation that ends has no fields to lose: terminations have a guard of their own. */
const COMPARED = `FROM records WHERE was IS NOT NULL AND position IS NOT NULL AND variant IS NOT NULL
  AND kind NOT IN ('ended', 'duplicate', 'invalid', 'unmappable', 'ignored')`;

type FieldsRow = Pick<RecordRow, "code" | "digests" | "fields" | "kept" | "variant">;

function fieldCounts(work: WorkFile): FieldCount[] {
  const all = `SELECT variant, count(*) AS n ${COMPARED} GROUP BY variant`;
  const counts = [...work.all<{ variant: Variant; n: number }>(all)].flatMap(({ variant, n }) => {
    const found = new Map<string, Found>();
    const sql = `SELECT code, variant, digests, kept, iif(kind IN (${PLANNED}), fields, NULL) AS fields
      ${COMPARED} AND variant = ? AND (fields IS NOT NULL OR kept IS NOT NULL)`;
    for (const row of work.all<FieldsRow>(sql, variant)) {
      const lost = emptiedIn(row);
      for (const field of fieldsIn(row.kept)) add(found, field, "notUnderstood", row.code);
      for (const field of fieldsIn(row.fields))
        add(found, field, lost.includes(field) ? "emptied" : "changed", row.code);
    }
    return [...found].map(([field, of]) => {
      return { field, variant, compared: n, equal: n - touchedIn(of), ...of };
    });
  });
  return counts.sort((a, b) => touchedIn(b) - touchedIn(a));
}

type Found = { changed: number; emptied: number; notUnderstood: number; examples: string[] };

/** In how many relations the field is not equal. */
export const touchedIn = ({
  changed,
  emptied,
  notUnderstood,
}: Pick<FieldCount, "changed" | "emptied" | "notUnderstood">): number =>
  changed + emptied + notUnderstood;

function add(
  found: Map<string, Found>,
  field: string,
  what: "changed" | "emptied" | "notUnderstood",
  code: string,
): void {
  const count = found.get(field) ?? { changed: 0, emptied: 0, notUnderstood: 0, examples: [] };
  count[what] += 1;
  if (count.examples.length < EXAMPLES) count.examples.push(code);
  found.set(field, count);
}

function reasonsIn(work: WorkFile): Reason[] {
  const reasons = new Map<string, Reason>();
  const sql = "SELECT problems, count(*) AS n FROM rejects GROUP BY problems";
  for (const { problems, n } of work.all<{ problems: string; n: number }>(sql)) {
    for (const one of JSON.parse(problems) as Refusal[]) {
      // In a list, its place does not matter.
      const field = one.value === undefined ? one.field : one.field.replace(/\[\d+\]$/, "");
      const problem = { ...one, field };
      const key = refusalText(problem);
      const known = reasons.get(key);
      reasons.set(key, { ...problem, ...known, count: (known?.count ?? 0) + n });
    }
  }
  return [...reasons.values()].sort((a, b) => b.count - a.count);
}
