/** What a finished comparison has found, in numbers. */
import type { Variant } from "../service-spec/business-relation.ts";
import { DRIFT_KINDS, type DriftKind } from "../sync/drift.ts";
import type { Problem } from "../event/problem.ts";
import type { Encoding } from "../snapshot/scan-file.ts";
import { emptiedIn } from "./compare.ts";
import type { Ingested } from "./ingest.ts";
import type { Listed } from "./list-service.ts";
import { fieldsIn, listOf, PLANNED, type RecordRow, type WorkFile } from "./work-file.ts";

/** Results that are no drift, and what they mean. */
export const AGREEING = {
  equal: "equal",
  newer: "changed since the snapshot was taken",
  waiting: "their change waits to be sent",
  ignored: "left out by the mapping",
} as const;

type CountName = DriftKind | keyof typeof AGREEING;

/** Why records cannot be used, and how many. */
export interface Reason extends Problem {
  readonly count: number;
}

export interface Emptied {
  readonly field: string;
  readonly variant: Variant;
  /** How many have a value, and how many relations of this type were compared. */
  readonly relations: number;
  readonly of: number;
}

export interface Summary
  extends Omit<Ingested, "ignored" | "objects">, Pick<Listed, "active" | "relations"> {
  /** How the snapshot was read. */
  readonly encoding: Encoding;
  /** crmCodes of the snapshot, and those of them that the service lists. */
  readonly codes: number;
  readonly matched: number;
  /** Relations of the snapshot that the ledger is sure of, and that the service does not list. */
  readonly lacking: number;
  readonly counts: Readonly<Record<CountName, number>>;
  /** How often each field changes or gets a value, and how often one is emptied, the most frequent first. */
  readonly fields: Readonly<Record<string, number>>;
  readonly emptied: Readonly<Record<string, number>>;
  /** Fields of which no record has a value, and that the plan would empty at relations of the service. */
  readonly emptiedEverywhere: readonly Emptied[];
  /** Fields that can be made of no record for that, and how many relations keep theirs. */
  readonly notCarried: Readonly<Record<string, number>>;
  readonly reasons: readonly Reason[];
}

export function summarise(
  work: WorkFile,
  ingested: Ingested,
  { active, relations }: Listed,
  more: Pick<Summary, "encoding" | "lacking">,
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
    ...fieldCounts(work),
    emptiedEverywhere: emptiedEverywhere(work),
    notCarried: notCarriedIn(work),
    reasons: reasonsIn(work),
  };
}

/** How often each field differs, the most frequent first. */
function fieldCounts(work: WorkFile): Pick<Summary, "emptied" | "fields"> {
  const changed: Counts = new Map();
  const emptied: Counts = new Map();
  for (const row of work.all<FieldsRow>(DIFFERING)) {
    const lost = emptiedIn(row);
    for (const field of fieldsIn(row.fields)) add(lost.includes(field) ? emptied : changed, field);
  }
  return { fields: inOrder(changed), emptied: inOrder(emptied) };
}

/** For each field that the snapshot does not carry, how many relations have it. */
function notCarriedIn(work: WorkFile): Record<string, number> {
  const counts: Counts = new Map();
  const sql = "SELECT kept, count(*) AS n FROM records WHERE kept IS NOT NULL GROUP BY kept";
  for (const { kept, n } of work.all<{ kept: string; n: number }>(sql)) {
    for (const field of fieldsIn(kept)) add(counts, field, n);
  }
  return inOrder(counts);
}

type Counts = Map<string, number>;

const add = (counts: Counts, field: string, more = 1): void =>
  void counts.set(field, (counts.get(field) ?? 0) + more);

const inOrder = (counts: Counts): Record<string, number> =>
  Object.fromEntries([...counts].sort(([, a], [, b]) => b - a));

type FieldsRow = Pick<RecordRow, "digests" | "fields" | "variant">;

const DIFFERING = `SELECT variant, digests, fields FROM records
  WHERE kind IN (${PLANNED}) AND fields IS NOT NULL`;

function emptiedEverywhere(work: WorkFile): Emptied[] {
  return (["Person", "Company"] as const).flatMap((variant) => {
    const counts: Counts = new Map();
    for (const row of work.all<FieldsRow>(`${DIFFERING} AND variant = ?`, variant)) {
      for (const field of emptiedIn(row)) add(counts, field);
    }
    if (counts.size === 0) return [];
    const all = "SELECT variant, digests FROM records WHERE digests IS NOT NULL AND variant = ?";
    for (const row of work.all<Omit<FieldsRow, "fields">>(all, variant)) {
      const lacking = new Set(emptiedIn({ ...row, fields: listOf([...counts.keys()]) }));
      for (const field of counts.keys()) if (!lacking.has(field)) counts.delete(field);
      if (counts.size === 0) return [];
    }
    const of = work.count(`SELECT count(was) AS n FROM records WHERE variant = '${variant}'`);
    return [...counts].map(([field, relations]) => ({ field, variant, relations, of }));
  });
}

function reasonsIn(work: WorkFile): Reason[] {
  const reasons = new Map<string, Reason>();
  const sql = "SELECT problems, count(*) AS n FROM rejects GROUP BY problems";
  for (const { problems, n } of work.all<{ problems: string; n: number }>(sql)) {
    for (const problem of JSON.parse(problems) as Problem[]) {
      const key = `${problem.field}\n${problem.rule}`;
      const known = reasons.get(key);
      reasons.set(key, { ...problem, ...known, count: (known?.count ?? 0) + n });
    }
  }
  return [...reasons.values()].sort((a, b) => b.count - a.count);
}
