/**
 * Takes out of the differences what live changes explain: the ledger and the staged states are read
 * after the listing, so that every change which the listing may have met is known.
 */
import type { BulkChanges } from "../../core/state/bulk-changes.ts";
import type { HeldTerminations } from "../../core/state/held-terminations.ts";
import type { Ledger } from "../../core/state/ledger.ts";
import type { StagedStates } from "../../core/state/staged-state.ts";
import { rowWithoutProof, type LedgerRow } from "../../core/sync/ledger-row.ts";
import { isOurs, waitingIn } from "../../core/sync/known.ts";
import { REJECTIONS } from "../../core/sync/decide.ts";
import { compare, resolve } from "./compare.ts";
import { reject } from "./ingest.ts";
import { wantedOf, type Listed } from "./list-service.ts";
import { placeOf, PLANNED, type RecordRow, type WorkFile } from "./work-file.ts";

export interface LiveStores {
  readonly ledger: Pick<Ledger, "heal" | "rowsOf">;
  readonly staged: Pick<StagedStates, "waiting">;
  readonly bulkChanges: Pick<BulkChanges, "waiting">;
  readonly heldTerminations: Pick<HeldTerminations, "crmCodes">;
}

/**
 * How many relations of the snapshot the ledger was sure of before the listing, and the listing lacks. To be
 * counted before the ledger is corrected.
 */
export async function lackingIn(
  { ledger }: Pick<LiveStores, "ledger">,
  work: WorkFile,
  { startedAt }: Listed,
): Promise<number> {
  let lacking = 0;
  for (const page of work.pages("was IS NULL")) {
    const rows = await ledger.rowsOf(page.map(({ code }) => code));
    lacking += rows.filter(
      (row) => row?.exists === true && !row.uncertain && row.provedAt < startedAt,
    ).length;
  }
  return lacking;
}

/** @returns how many of the relations that the snapshot lacks are foreign. @param includeForeign plans them as ours */
export async function resolveLive(
  stores: LiveStores,
  work: WorkFile,
  { startedAt }: Listed,
  includeForeign = false,
): Promise<number> {
  const unresolved = `kind IS NULL OR kind IN (${PLANNED}, 'foreign', 'variant', 'nothing_to_restore')`;
  const isLike = shapeOfCodes(work);
  let foreign = 0;
  const kindOfExtra = (record: RecordRow, row: LedgerRow | undefined) => {
    if (isOurs(row) || isLike(record)) return "extra";
    foreign += 1;
    return includeForeign ? "extra" : "foreign";
  };
  for (const page of work.pages(unresolved))
    await resolveRecords(stores, work, page, { startedAt, kindOfExtra });
  await resolveWaiting(stores.bulkChanges.waiting(), stores, work);
  await resolveWaiting(stores.heldTerminations.crmCodes(), stores, work);
  return foreign;
}

/**
 * Whether a crmCode could come from this mapping: it begins as all codes of its variant in the snapshot do, as far as
 * that cannot be part of an id (up to a separator and letters, as `c-`), and goes on with no other kind of character.
 */
function shapeOfCodes(work: WorkFile): (record: Pick<RecordRow, "code" | "variant">) => boolean {
  const shapes = new Map<string | null, { common: string; signs: Set<string> }>();
  const sql =
    "SELECT code, variant FROM records WHERE position IS NOT NULL AND variant IS NOT NULL";
  for (const { code, variant } of work.all<RecordRow>(sql)) {
    const { common, signs } = shapes.get(variant) ?? { common: code, signs: new Set() };
    let same = 0;
    while (same < common.length && common[same] === code[same]) same += 1;
    for (const sign of signsOf(code)) signs.add(sign);
    shapes.set(variant, { common: common.slice(0, same), signs });
  }
  return ({ code, variant }) => {
    const shape = shapes.get(variant);
    const [prefix = ""] = /^(?:.*[^\p{L}\p{N}])?\p{L}*/u.exec(shape?.common ?? "") ?? [];
    return code.startsWith(prefix) && signsOf(code).every((sign) => shape?.signs.has(sign));
  };
}

/** Its kinds of characters; all others stand for themselves. */
const signsOf = (code: string): string[] => [
  ...new Set(
    code
      .replaceAll(/\p{N}/gu, "0")
      .replaceAll(/\p{Ll}/gu, "a")
      .replaceAll(/\p{Lu}/gu, "A"),
  ),
];

async function resolveRecords(
  stores: LiveStores,
  work: WorkFile,
  batch: readonly RecordRow[],
  {
    kindOfExtra,
    startedAt,
  }: Pick<Listed, "startedAt"> & {
    readonly kindOfExtra: (record: RecordRow, row: LedgerRow | undefined) => string;
  },
): Promise<void> {
  const absent = batch.filter(({ was }) => was === null).map(({ code }) => code);
  await stores.ledger.heal(
    // One list is weak evidence: the row says "not known", and the next change costs a request.
    absent.map((code) => [code, { ...rowWithoutProof(false), provedAt: startedAt }] as const),
    startedAt,
  );
  const codes = batch.map(({ code }) => code);
  // The staged states first: one that is settled in between has left its mark in the ledger.
  const waiting = await stores.staged.waiting(codes);
  const rows = await stores.ledger.rowsOf(codes);
  work.together(() => {
    for (const [index, record] of batch.entries()) {
      const live = { row: rows[index], staged: waitingIn(waiting[index]) };
      const wanted = wantedOf(record);
      const kind =
        record.position === null
          ? kindOfExtra(record, rows[index])
          : (record.kind ?? compare(wanted, undefined));
      const resolved = resolve({ ...wanted, order: record.ord }, live);
      keepKind(work, record, resolved === "differs" ? kind : resolved);
    }
  });
}

/** A difference that no request can repair becomes a record that cannot be used. */
function keepKind(work: WorkFile, record: RecordRow, kind: string): void {
  const { code, kind: before, position } = record;
  if (kind === "variant" || kind === "nothing_to_restore") {
    const why = kind === "variant" ? "variant_changed" : "nothing_to_restore";
    const at = { position, place: placeOf(record), code, owner: record.owner };
    reject(work, at, "invalid", REJECTIONS[why]);
    work.run("UPDATE records SET kind = 'invalid' WHERE code = ?", code);
    return;
  }
  if (kind !== before) work.run("UPDATE records SET kind = ? WHERE code = ?", kind, code);
}

/**
 * An equal record will not stay equal if an older bulk change of it waits, or an older termination is held.
 * So it counts as different, and the plan replaces the older change without a request.
 * @param pages crmCodes of which a change waits
 */
async function resolveWaiting(
  pages: AsyncIterable<readonly string[]>,
  { staged }: Pick<LiveStores, "staged">,
  work: WorkFile,
): Promise<void> {
  const sql = "SELECT * FROM records WHERE code = ? AND kind = 'equal' AND position IS NOT NULL";
  for await (const codes of pages) {
    const equal = codes.flatMap((code) => (work.get(sql, code) as RecordRow | undefined) ?? []);
    const waiting = await staged.waiting(equal.map(({ code }) => code));
    work.together(() => {
      for (const [index, record] of equal.entries()) {
        const state = { row: undefined, staged: waitingIn(waiting[index]) };
        const wanted = { ...wantedOf(record), order: record.ord };
        if (state.staged === undefined || resolve(wanted, state) !== "differs") continue;
        const change = "UPDATE records SET kind = 'different', fields = '[]' WHERE code = ?";
        work.run(change, record.code);
      }
    });
  }
}
