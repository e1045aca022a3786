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
import { compare, resolve, type Resolved } from "./compare.ts";
import { reject } from "./ingest.ts";
import { wantedOf, type Listed } from "./list-service.ts";
import { PLANNED, type RecordRow, type WorkFile } from "./work-file.ts";

const BATCH = 500;

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
  const sql = "SELECT code FROM records WHERE code > ? AND was IS NULL ORDER BY code LIMIT ?";
  let lacking = 0;
  for (let after = ""; ;) {
    const codes = [...work.all<{ code: string }>(sql, after, BATCH)].map(({ code }) => code);
    if (codes.length === 0) return lacking;
    after = codes.at(-1) ?? "";
    const rows = await ledger.rowsOf(codes);
    lacking += rows.filter(
      (row) => row?.exists === true && !row.uncertain && row.provedAt < startedAt,
    ).length;
  }
}

export async function resolveLive(
  stores: LiveStores,
  work: WorkFile,
  { startedAt }: Listed,
): Promise<void> {
  for (let after = ""; ;) {
    const batch = [
      ...work.all<RecordRow>(
        `SELECT * FROM records WHERE code > ? AND (kind IS NULL OR
           kind IN (${PLANNED}, 'variant', 'nothing_to_restore'))
         ORDER BY code LIMIT ?`,
        after,
        BATCH,
      ),
    ];
    if (batch.length === 0) break;
    after = batch.at(-1)?.code ?? "";
    await resolveRecords(stores, work, batch, startedAt);
  }
  await resolveExtras(stores, work);
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
  const live = await liveStates(
    stores,
    batch.map(({ code }) => code),
  );
  work.together(() => {
    for (const [index, record] of batch.entries()) {
      const wanted = wantedOf(record);
      const kind = record.kind ?? compare(wanted, undefined);
      const resolved = resolve({ ...wanted, order: record.ord }, live[index] ?? NOTHING);
      keepKind(work, record, resolved === "differs" ? kind : resolved);
    }
  });
}

/** A difference that no request can repair becomes a record that cannot be used. */
function keepKind(work: WorkFile, { code, kind: before, position }: RecordRow, kind: string): void {
  if (kind === "variant" || kind === "nothing_to_restore") {
    const why = kind === "variant" ? "variant_changed" : "nothing_to_restore";
    const at = { position, place: `item ${position + 1}`, code };
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
  const sql = "SELECT * FROM records WHERE code = ? AND kind = 'equal'";
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

async function resolveExtras(stores: LiveStores, work: WorkFile): Promise<void> {
  const asOf = (work.progress("order") as string | undefined) ?? "";
  const wanted = { status: "terminated", fingerprint: undefined, ends: true, order: asOf } as const;
  for (let after = ""; ;) {
    const sql =
      "SELECT code FROM extras WHERE code > ? AND (kind IS NULL OR kind = 'extra') ORDER BY code LIMIT ?";
    const codes = [...work.all<{ code: string }>(sql, after, BATCH)].map(({ code }) => code);
    if (codes.length === 0) return;
    after = codes.at(-1) ?? "";
    const live = await liveStates(stores, codes);
    work.together(() => {
      for (const [index, code] of codes.entries()) {
        const resolved: Resolved = resolve(wanted, live[index] ?? NOTHING);
        const kind = resolved === "differs" ? "extra" : resolved;
        work.run("UPDATE extras SET kind = ? WHERE code = ?", kind, code);
      }
    });
  }
}

const NOTHING = { row: undefined, staged: undefined };

async function liveStates({ ledger, staged }: LiveStores, codes: readonly string[]) {
  // The staged states first: one that is settled in between has left its mark in the ledger.
  const waiting = await staged.waiting(codes);
  const rows = await ledger.rowsOf(codes);
  return codes.map((_, index) => ({ row: rows[index], staged: waitingIn(waiting[index]) }));
}
