/** Reads the whole snapshot into the work file: crmCode, fingerprint and order of every record. */
import { randomUUID } from "node:crypto";
import { splitSubject } from "../../core/event/crm-event.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import type { Unread } from "../../intake/mapping/unread-paths.ts";
import type { Problem } from "../../core/event/problem.ts";
import { digestsOf } from "./compare.ts";
import {
  noRecord,
  planRecord,
  requireNoSource,
  requireOwnCode,
  type LeftOutValue,
  type PlannedRecord,
  type PlanningView,
} from "./plan-record.ts";
import type { SnapshotEvent } from "./read-events.ts";
import { listOf, type RecordRow, type WorkFile } from "./work-file.ts";

/** Records in one transaction. */
const BATCH = 5000;

export interface Ingested {
  /** Records or events of the snapshot. */
  readonly records: number;
  /** Records that the mapping leaves out. */
  readonly ignored: number;
  /** Records whose crmCode is not known. */
  readonly nameless: number;
  /** Rows that are no record, and records that stand twice with the same content: they count once. */
  readonly skipped: number;
  readonly repeated: number;
  /** The CRM's objects of all records, such as contact, in lower case. */
  readonly objects: readonly string[];
  /**
   * Values that the mapping left out, the most frequent first: the service keeps what it has there. Or `sent`: the field
   * has another value instead, of a fallback, a default or the rest of a list.
   */
  readonly leftOut: readonly (LeftOutValue & { readonly sent?: true; readonly count: number })[];
  /** What the mapping reads, and no record has. */
  readonly unread: readonly Unread[];
}

export interface IngestOptions {
  readonly unread?: readonly Unread[];
  /** The field that was said to hold the records' id. */
  readonly idFrom?: string | undefined;
  /** Rows so far that were no record. */
  readonly skipped?: () => number;
}

export async function ingest(
  events: AsyncIterable<SnapshotEvent>,
  view: PlanningView,
  work: WorkFile,
  { idFrom, skipped = () => 0, unread = [] }: IngestOptions = {},
): Promise<Ingested> {
  const known = work.progress("ingested") as Ingested | undefined;
  if (known !== undefined) return known;
  work.clear();
  const seed = randomUUID();
  work.note("seed", seed);
  let idChecked = false;
  let sourceChecked = false;
  const counts = { records: 0, ignored: 0, nameless: 0, repeated: 0 };
  const objects = new Set<string>();
  const leftOut = new LeftOutCounts();
  const odd = new OddRows();
  let batch: PlannedRecord[] = [];
  const flush = () => {
    work.together(() => {
      for (const record of batch) if (keep(record, seed, work) === "repeated") counts.repeated += 1;
    });
    batch = [];
  };
  for await (const event of events) {
    objects.add(objectOf(event));
    if (!event.hasId && !idChecked) {
      idChecked = true;
      await requireOwnCode(event, view, idFrom);
    }
    if (!sourceChecked) {
      sourceChecked = true;
      await requireNoSource(event, view);
    }
    const record = await planRecord(event, view);
    counts.records += 1;
    if (record.kind === "ignored") counts.ignored += 1;
    else if (record.crmCode === undefined) counts.nameless += 1;
    if (record.kind === "wanted") {
      leftOut.add(record);
      const own = view.mapping.ids?.some(({ objects: named }) => named.includes(objectOf(event)));
      if (own !== true) odd.see(event, record.crmCode);
    }
    batch.push(record);
    if (batch.length === BATCH) flush();
  }
  flush();
  for (const row of odd.rows()) rejectOddRow(row, work);
  const ingested = {
    ...counts,
    skipped: skipped(),
    unread,
    objects: [...objects],
    leftOut: leftOut.counts(),
  };
  work.note("ingested", ingested);
  return ingested;
}

interface OddRow {
  readonly crmCode: string;
  readonly place: string;
  readonly position: number;
}

/** So many rows of a table may be names, types or sums. */
const MOST_ODD = 3;

/** Rows of a table without a digit in their id, where all others have one: a second row of names, of types, a sum. */
class OddRows {
  #others = 0;
  #odd: OddRow[] = [];

  see({ event, header, place, position }: SnapshotEvent, crmCode: string): void {
    if (header === undefined) return;
    const { recordId } = splitSubject(String(event["subject"]));
    if (/\p{N}/u.test(recordId)) this.#others += 1;
    else if (this.#odd.length <= MOST_ODD) this.#odd.push({ crmCode, place, position });
  }

  rows(): readonly OddRow[] {
    return this.#odd.length <= Math.min(MOST_ODD, this.#others) ? this.#odd : [];
  }
}

function rejectOddRow({ crmCode, place, position }: OddRow, work: WorkFile): void {
  const rule = `must look like the other ids of the file, which have digits${noRecord(place)}`;
  const problem = { field: "crmCode", rule, kind: "an id without a digit" };
  reject(work, { position, place, code: crmCode }, "invalid", [problem]);
  const sql = "UPDATE records SET kind = 'invalid' WHERE code = ? AND position = ?";
  work.run(sql, crmCode, position);
}

/** Counts values that the mapping left out. */
class LeftOutCounts {
  readonly #leftOut = new Map<string, Ingested["leftOut"][number]>();

  add({ leftOut, wanted }: Extract<PlannedRecord, { kind: "wanted" }>): void {
    const kept = new Set([...wanted.notUnderstood, ...(wanted.lacks ?? [])]);
    for (const { field, reason } of leftOut) {
      const sent = kept.has(field) ? {} : ({ sent: true } as const);
      const key = [field, reason, ...Object.keys(sent)].join(" ");
      const count = (this.#leftOut.get(key)?.count ?? 0) + 1;
      this.#leftOut.set(key, { field, reason, ...sent, count });
    }
  }

  /** The most frequent first. */
  counts(): Ingested["leftOut"] {
    return [...this.#leftOut.values()].sort((a, b) => b.count - a.count);
  }
}

const objectOf = ({ event: { subject } }: SnapshotEvent): string =>
  typeof subject === "string" ? splitSubject(subject).object.toLowerCase() : "";

/** Objects that the mapping names, and of which the snapshot has no record. */
export function absentObjects(work: WorkFile, { objects }: Pick<Mapping, "objects">): string[] {
  const { objects: present = [] } = (work.progress("ingested") ?? {}) as Partial<Ingested>;
  return objects.filter((object) => !present.includes(object.toLowerCase()));
}

function keep(record: PlannedRecord, seed: string, work: WorkFile): "repeated" | undefined {
  if (record.kind === "wanted") return keepWanted(record, seed, work);
  const { crmCode, owner, position, place } = record;
  if (record.kind !== "ignored")
    reject(work, { position, place, code: crmCode, owner }, record.kind, record.problems);
  if (crmCode === undefined) return undefined;
  // Such a record is in the CRM: its relation is neither compared nor taken for one too many.
  work.add("records", { code: crmCode, position, ord: "", status: "", ends: 0, kind: record.kind });
  return undefined;
}

function keepWanted(
  {
    crmCode,
    owner,
    position,
    place,
    order,
    wanted,
    body,
  }: Extract<PlannedRecord, { kind: "wanted" }>,
  seed: string,
  work: WorkFile,
): "repeated" | undefined {
  const { fingerprint, lacks, notUnderstood, partial, variant, status, ends } = wanted;
  const digests = body && variant && digestsOf(body, variant, seed);
  // Of several events of one record the newest counts. A record that can be used replaces one that cannot.
  const older = "DELETE FROM records WHERE code = ? AND ord < ? AND kind IS NOT 'duplicate'";
  work.run(older, crmCode, order);
  const isNew = work.add("records", {
    code: crmCode,
    position,
    ord: order,
    status,
    fingerprint: fingerprint ?? null,
    unclear: listOf(notUnderstood),
    partial: partial ?? null,
    lacks: listOf(lacks),
    variant: variant ?? null,
    ends: ends ? 1 : 0,
    digests: digests ?? null,
    owner: owner ?? null,
  });
  if (isNew) return undefined;
  // A join has written it once for each of its parts.
  const same = work.get(
    "SELECT 1 FROM records WHERE code = ? AND ord = ? AND fingerprint = ? AND status = ? AND kind IS NULL",
    crmCode,
    order,
    fingerprint ?? "",
    status,
  );
  if (same !== undefined) return "repeated";
  const twins = work.run(
    "UPDATE records SET kind = 'duplicate' WHERE code = ? AND ord = ? AND (kind IS NULL OR kind = 'duplicate')",
    crmCode,
    order,
  );
  if (twins === 0) return undefined;
  const problem = {
    field: "crmCode",
    rule: "must not be that of another record",
    kind: "a crmCode",
  };
  reject(work, { position, place, code: crmCode, owner }, "duplicate", [problem]);
  return undefined;
}

export function reject(
  work: WorkFile,
  { position, place, code = null, owner = null }: Rejected,
  kind: string,
  problems: readonly Problem[],
): void {
  work.add("rejects", { position, place, code, kind, problems: JSON.stringify(problems), owner });
}

interface Rejected extends Pick<RecordRow, "position"> {
  readonly place: string | null;
  readonly code: string | null | undefined;
  readonly owner?: string | null | undefined;
}
