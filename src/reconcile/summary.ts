/** What a finished comparison has found, in numbers. */
import type { WarningReason } from "../mapping/mapping.ts";
import type { Variant } from "../service-spec/business-relation.ts";
import { DRIFT_KINDS, type DriftKind } from "../sync/drift.ts";
import { SORTED_FIELDS } from "../sync/fingerprint.ts";
import type { Problem } from "../event/problem.ts";
import type { Encoding } from "../snapshot/scan-file.ts";
import type { Ingested } from "./ingest.ts";
import type { Listed } from "./list-service.ts";
import type { WorkFile } from "./work-file.ts";

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
  /** How many have a value. */
  readonly relations: number;
}

export interface Summary {
  /** Records or events of the snapshot, and those whose crmCode is not known. */
  readonly records: number;
  readonly nameless: number;
  /** Rows that are no record, and records that stand twice with the same content. */
  readonly skipped: number;
  readonly repeated: number;
  /** How the snapshot was read. */
  readonly encoding: Encoding;
  /** crmCodes of the snapshot, and those of them that the service lists. */
  readonly codes: number;
  readonly matched: number;
  /** Relations at the service, and those that are not terminated. */
  readonly relations: number;
  readonly active: number;
  /** Relations of the snapshot that the ledger is sure of, and that the service does not list. */
  readonly lacking: number;
  readonly counts: Readonly<Record<CountName, number>>;
  /** How often each field differs, the most frequent first. */
  readonly fields: Readonly<Record<string, number>>;
  /** Fields that no record of the snapshot has, and that the plan would empty at relations of the service. */
  readonly emptied: readonly Emptied[];
  readonly reasons: readonly Reason[];
  /** Values that the mapping left out, and how many: the service keeps what it has there. */
  readonly leftOut: readonly LeftOut[];
  /** Of the records that have a value in a field, how many could be used; only fields of which one could not. */
  readonly understood: Ingested["understood"];
}

export interface LeftOut {
  readonly field: string;
  readonly reason: WarningReason;
  readonly count: number;
}

export function summarise(
  work: WorkFile,
  ingested: Ingested,
  listed: Listed,
  lacking: number,
): Omit<Summary, "encoding"> {
  const found: Record<string, number> = {};
  const tables = ["records WHERE kind NOT IN ('invalid', 'unmappable')", "extras", "rejects"];
  for (const table of tables) {
    const sql = `SELECT kind, count(*) AS n FROM ${table} GROUP BY kind`;
    // A second record of one crmCode is in both tables.
    for (const { kind, n } of work.all<{ kind: string; n: number }>(sql)) {
      if (table !== "rejects" || kind !== "duplicate") found[kind] = (found[kind] ?? 0) + n;
    }
  }
  const names = [...DRIFT_KINDS, ...Object.keys(AGREEING)];
  const counts = Object.fromEntries(names.map((name) => [name, found[name] ?? 0]));
  return {
    records: ingested.records,
    nameless: ingested.nameless,
    skipped: ingested.skipped,
    repeated: ingested.repeated,
    codes: work.count("SELECT count(*) AS n FROM records"),
    matched: work.count("SELECT count(was) AS n FROM records"),
    relations: listed.relations,
    active: listed.active,
    lacking,
    counts: { ...counts, ignored: ingested.ignored } as Summary["counts"],
    fields: fieldCounts(work),
    emptied: emptiedFields(work),
    reasons: reasonsIn(work),
    leftOut: leftOutOf(ingested),
    understood: ingested.understood,
  };
}

const leftOutOf = ({ leftOut }: Ingested): LeftOut[] =>
  Object.entries(leftOut)
    .flatMap(([field, reasons]) =>
      Object.entries(reasons).map(([reason, count]) => {
        return { field, reason: reason as WarningReason, count };
      }),
    )
    .toSorted((a, b) => b.count - a.count);

function fieldCounts(work: WorkFile): Record<string, number> {
  const counts = new Map<string, number>();
  const sql =
    "SELECT fields FROM records WHERE kind IN ('different', 'terminated', 'ended') AND fields IS NOT NULL";
  for (const { fields } of work.all<{ fields: string }>(sql)) {
    for (const field of JSON.parse(fields) as string[]) {
      counts.set(field, (counts.get(field) ?? 0) + 1);
    }
  }
  return Object.fromEntries([...counts].sort(([, a], [, b]) => b - a));
}

interface DigestsRow {
  readonly variant: Variant;
  readonly digests: Uint8Array;
  readonly fields: string | null;
}

function emptiedFields(work: WorkFile): Emptied[] {
  const select = "SELECT variant, digests, fields FROM records WHERE digests IS NOT NULL";
  const counts: Record<Variant, Map<string, number>> = { Person: new Map(), Company: new Map() };
  for (const row of work.all<DigestsRow>(`${select} AND kind IN ('different', 'terminated')`)) {
    const count = counts[row.variant];
    for (const field of JSON.parse(row.fields ?? "[]") as string[]) {
      if (!hasValue(row, field)) count.set(field, (count.get(field) ?? 0) + 1);
    }
  }
  const isNone = () => counts.Person.size + counts.Company.size === 0;
  if (isNone()) return [];
  for (const row of work.all<DigestsRow>(select)) {
    const count = counts[row.variant];
    for (const field of count.keys()) if (hasValue(row, field)) count.delete(field);
    if (isNone()) return [];
  }
  const variants = Object.entries(counts) as [Variant, Map<string, number>][];
  return variants.flatMap(([variant, count]) =>
    [...count].map(([field, relations]) => ({ field, variant, relations })),
  );
}

function hasValue({ digests, variant }: DigestsRow, field: string): boolean {
  const values = new Uint32Array(new Uint8Array(digests).buffer);
  return values[SORTED_FIELDS[variant].indexOf(field)] !== 0;
}

function reasonsIn(work: WorkFile): Reason[] {
  const reasons = new Map<string, { problem: Problem; count: number }>();
  const sql = "SELECT problems, count(*) AS n FROM rejects GROUP BY problems";
  for (const { problems, n } of work.all<{ problems: string; n: number }>(sql)) {
    for (const problem of JSON.parse(problems) as Problem[]) {
      const key = `${problem.field}\n${problem.rule}`;
      const known = reasons.get(key);
      reasons.set(key, { problem: known?.problem ?? problem, count: (known?.count ?? 0) + n });
    }
  }
  const all = [...reasons.values()].map(({ problem, count }) => ({ ...problem, count }));
  return all.sort((a, b) => b.count - a.count);
}
