/**
 * Takes out of the differences what live changes explain: the ledger and the staged states are read
 * after the listing, so that every change which the listing may have met is known.
 */
import type { BulkChanges } from "../state/bulk-changes.ts";
import type { HeldTerminations } from "../state/held-terminations.ts";
import type { Ledger } from "../state/ledger.ts";
import type { StagedStates } from "../state/staged-state.ts";
import { rowWithoutProof } from "../sync/ledger-row.ts";
import { waitingIn } from "../sync/record.ts";
import { REJECTIONS } from "../sync/decide.ts";
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

export async function resolveLive(
  stores: LiveStores,
  work: WorkFile,
  { startedAt }: Listed,
): Promise<void> {
  const unresolved = `kind IS NULL OR kind IN (${PLANNED}, 'variant', 'nothing_to_restore')`;
  for (const page of work.pages(unresolved)) await resolveRecords(stores, work, page, startedAt);
  await resolveWaiting(stores.bulkChanges.waiting(), stores, work);
  await resolveWaiting(stores.heldTerminations.crmCodes(), stores, work);
}

async function resolveRecords(
  stores: LiveStores,
  work: WorkFile,
  batch: readonly RecordRow[],
  startedAt: number,
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
      const kind = record.kind ?? (record.position === null ? "extra" : compare(wanted, undefined));
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
    const at = { position, place: placeOf(record), code };
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
