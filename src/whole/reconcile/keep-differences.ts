/** Keeps since when each difference is known, from one comparison of a kind of export to the next. */
import {
  repairedAt,
  type ComparedExport,
  type Difference,
  type EndedDifference,
} from "../../core/state/differences.ts";
import { readOne } from "../../base/redis-reading.ts";
import type { DriftKind } from "../../core/sync/drift.ts";
import type { Problem } from "../../core/event/problem.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { fieldsIn, PLANNED, type RecordRow, type WorkFile } from "./work-file.ts";

export interface Compared {
  /** Names the kind of export. */
  readonly kind: string;
  readonly name: string;
  /** When its snapshot was taken, ms. */
  readonly asOf: number;
  /** When the comparison ended, ms. */
  readonly at: number;
}

/** Records that are read, or written, in one round trip. */
const PAGE = 500;

/** Times since which differences are counted apart; older ones count with the first of these. */
const MOST_TIMES = 20;

/** Ends the differences that are gone, and writes those that are there, each with since when it is known. */
export async function keepDifferences(
  stores: Stores,
  work: WorkFile,
  compared: Compared,
): Promise<ComparedExport> {
  const { differences } = stores;
  const { asOf, at, kind, name } = compared;
  const { [kind]: before } = await readOne(stores.redis, differences.exports());
  await endOld(stores, work, compared, before?.at ?? at);
  for (const page of inPages(found(work))) {
    const crmCodes = page.map(([crmCode]) => crmCode);
    const known = await differences.of(kind, crmCodes);
    const now = page.map(([, one], n) => ({ ...one, since: known[n]?.since ?? asOf }));
    await differences.put(
      kind,
      now.map((one, n) => [crmCodes[n] ?? "", one] as const),
    );
  }
  const kept = { name, asOf, at, since: await countBySince(stores, kind) };
  await differences.noteExport(kind, kept);
  return kept;
}

/** Also those whose change waits by now, and that the comparison does not count as different. */
async function countBySince(stores: Stores, kind: string): Promise<ComparedExport["since"]> {
  const times = new Map<number, { at: number; count: number; held: number }>();
  for await (const page of stores.differences.pages(kind)) {
    const crmCodes = page.map(([crmCode]) => crmCode);
    const held = new Set(await stores.heldTerminations.among(crmCodes));
    for (const [crmCode, { kind: what, since: at }] of page) {
      if (what === "foreign") continue;
      const counts = times.get(at) ?? { at, count: 0, held: 0 };
      counts.count += 1;
      if (held.has(crmCode)) counts.held += 1;
      times.set(at, counts);
    }
  }
  const [first, ...others] = [...times.values()].toSorted((a, b) => a.at - b.at);
  if (first === undefined) return [];
  for (const one of others.splice(0, Math.max(0, others.length - MOST_TIMES))) {
    first.count += one.count;
    first.held += one.held;
  }
  return [first, ...others];
}

/** @param lastAt when the comparison before has ended, ms */
async function endOld(
  stores: Stores,
  work: WorkFile,
  { asOf, kind, name }: Compared,
  lastAt: number,
): Promise<void> {
  const sql = "SELECT kind, fields FROM records WHERE code = ?";
  const rejected = "SELECT 1 FROM rejects WHERE code = ?";
  for await (const page of stores.differences.pages(kind)) {
    const rows = await stores.ledger.rowsOf(page.map(([crmCode]) => crmCode));
    const gone: string[] = [];
    const ended: EndedDifference[] = [];
    for (const [n, [crmCode, known]] of page.entries()) {
      const row = work.get(sql, crmCode) as Pick<RecordRow, "fields" | "kind"> | undefined;
      const repaired = repairedAt(rows[n], lastAt);
      const stays =
        repaired === undefined && (isOpen(row, known) || work.get(rejected, crmCode) !== undefined);
      if (stays) continue;
      gone.push(crmCode);
      if (known.kind === "foreign") continue;
      const { since, ...what } = known;
      const endedAt = repaired ?? asOf;
      ended.push({ ...what, source: name, endedAt, tookMs: Math.max(0, endedAt - since) });
    }
    await stores.differences.end(kind, gone, ended);
  }
}

const DIFFERING: ReadonlySet<string> = new Set(
  PLANNED.split(",").map((kind) => kind.replaceAll("'", "")),
);

/** Whether it is the difference that was known. While its change waits, or is newer than the snapshot, it has not ended. */
function isOpen(row: Pick<RecordRow, "fields" | "kind"> | undefined, known: Difference): boolean {
  const kind = row?.kind ?? "";
  if (kind === "waiting" || kind === "newer") return true;
  if (kind === "foreign" || known.kind === "foreign") return kind === known.kind;
  const fields = fieldsIn(row?.fields ?? null);
  const isOther =
    fields.length > 0 &&
    known.fields.length > 0 &&
    !fields.some((field) => known.fields.includes(field));
  return DIFFERING.has(kind) && !isOther;
}

/** What differs by this comparison. */
function* found(work: WorkFile): Generator<[crmCode: string, Omit<Difference, "since">]> {
  const differing = `SELECT * FROM records WHERE kind IN (${PLANNED}, 'foreign')`;
  for (const { code, fields, kind, owner } of work.all<RecordRow>(differing))
    yield [code, { kind: kind as Difference["kind"], fields: fieldsIn(fields), ...ownedBy(owner) }];
  const rejects = "SELECT code, kind, problems, owner FROM rejects WHERE code IS NOT NULL";
  for (const { code, kind, owner, problems } of work.all<Reject>(rejects)) {
    const fields = (JSON.parse(problems) as Problem[]).map(({ field }) => field);
    yield [code, { kind: kind as DriftKind, fields, ...ownedBy(owner) }];
  }
}

interface Reject {
  readonly code: string;
  readonly kind: string;
  readonly problems: string;
  readonly owner: string | null;
}

const ownedBy = (owner: string | null) => (owner === null ? {} : { owner });

function* inPages<T>(all: Iterable<T>): Generator<T[]> {
  let page: T[] = [];
  for (const one of all) {
    page.push(one);
    if (page.length < PAGE) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}
