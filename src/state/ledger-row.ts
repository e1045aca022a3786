/** The ledger's rows as Redis has them: JSON, without what its absence says. */
import { NO_ORDERS, rowWithoutProof, type LedgerRow, type Orders } from "../sync/ledger-row.ts";

interface StoredRow extends Partial<Omit<LedgerRow, "orders" | "pace" | "provedAt">> {
  readonly provedAt: number;
  /** Of the status register, and of the fields where that differs. */
  readonly order?: string;
  readonly fields?: string;
  readonly is?: Orders["is"];
  readonly changedAt?: number;
  readonly gapMs?: number;
  /** Counts how often the whole ledger was forgotten: a proof from before that is not believed. */
  readonly epoch: number;
}

export function storeRow({ orders, pace, ...row }: LedgerRow, epoch: number): string {
  const { fields, is, status } = orders;
  // JSON leaves out what is undefined.
  return JSON.stringify({
    exists: row.exists,
    uncertain: row.uncertain || undefined,
    fingerprint: row.fingerprint,
    filled: row.filled,
    marks: row.marks,
    partial: row.partial,
    terminated: row.terminated || undefined,
    variant: row.variant,
    byList: row.byList || undefined,
    order: status || undefined,
    fields: fields === status ? undefined : fields,
    is: is === "mapped" ? undefined : is,
    provedAt: row.provedAt,
    writer: row.writer,
    since: row.since,
    ...pace,
    epoch,
  });
}

/** @param epoch the present one: of an older row, only what events have settled is still true. */
export function readRow(text: string, epoch: number): LedgerRow {
  const stored = JSON.parse(text) as StoredRow;
  const { order = "", fields = order, is = "mapped", provedAt, ...others } = stored;
  const { changedAt, epoch: ofRow, gapMs, writer, ...proof } = others;
  return {
    ...rowWithoutProof(false),
    ...(ofRow === epoch && proof),
    orders: order === "" ? NO_ORDERS : { status: order, fields, is },
    provedAt,
    ...(writer !== undefined && { writer }),
    ...(changedAt !== undefined && { pace: { changedAt, gapMs } }),
  };
}
