/** The ledger's rows as Redis has them: JSON, without what its absence says. */
import { NO_ORDERS, type LedgerRow, type Orders } from "../sync/ledger-row.ts";
import type { Variant } from "../service-spec/business-relation.ts";

interface StoredRow {
  readonly exists?: boolean;
  readonly uncertain?: true;
  readonly fingerprint?: string;
  readonly filled?: string;
  readonly partial?: string;
  readonly terminated?: true;
  readonly variant?: Variant;
  readonly byList?: true;
  /** Of the status register, and of the fields where that differs. */
  readonly order?: string;
  readonly fields?: string;
  readonly is?: Orders["is"];
  readonly provedAt: number;
  readonly writer?: string;
  readonly changedAt?: number;
  readonly gapMs?: number;
  /** Counts how often the whole ledger was forgotten: a proof from before that is not believed. */
  readonly epoch: number;
}

export function storeRow(row: LedgerRow, epoch: number): string {
  const { fields, is, status } = row.orders;
  const stored: StoredRow = {
    ...(row.exists !== undefined && { exists: row.exists }),
    ...(row.uncertain && { uncertain: true }),
    ...(row.fingerprint !== undefined && { fingerprint: row.fingerprint }),
    ...(row.filled !== undefined && { filled: row.filled }),
    ...(row.partial !== undefined && { partial: row.partial }),
    ...(row.terminated && { terminated: true }),
    ...(row.variant !== undefined && { variant: row.variant }),
    ...(row.byList === true && { byList: true }),
    ...(status !== "" && { order: status }),
    ...(fields !== status && { fields }),
    ...(is !== "mapped" && { is }),
    provedAt: row.provedAt,
    ...(row.writer !== undefined && { writer: row.writer }),
    ...(row.pace !== undefined && { changedAt: row.pace.changedAt }),
    ...(row.pace?.gapMs !== undefined && { gapMs: row.pace.gapMs }),
    epoch,
  };
  return JSON.stringify(stored);
}

/** @param epoch the present one: of an older row, only what events have settled is still true. */
export function readRow(text: string, epoch: number): LedgerRow {
  const stored = JSON.parse(text) as StoredRow;
  const { order = "", fields = order, is = "mapped", writer, changedAt, gapMs } = stored;
  const isBelieved = stored.epoch === epoch;
  return {
    exists: isBelieved ? stored.exists : undefined,
    uncertain: isBelieved && stored.uncertain === true,
    fingerprint: isBelieved ? stored.fingerprint : undefined,
    ...(isBelieved && stored.filled !== undefined && { filled: stored.filled }),
    ...(isBelieved && stored.partial !== undefined && { partial: stored.partial }),
    terminated: isBelieved && stored.terminated === true,
    variant: isBelieved ? stored.variant : undefined,
    ...(isBelieved && stored.byList === true && { byList: true }),
    orders: order === "" ? NO_ORDERS : { status: order, fields, is },
    provedAt: stored.provedAt,
    ...(writer !== undefined && { writer }),
    ...(changedAt !== undefined && { pace: { changedAt, gapMs } }),
  };
}
