/** The ledger's rows as they lie in Redis. */
import type { LedgerRow } from "../sync/ledger-row.ts";

/** As it lies in Redis: one-letter names, since there is a row for every relation. */
interface StoredRow {
  e: 1 | 0 | -1;
  u?: 1;
  f?: string;
  x?: 1;
  k?: "P" | "C";
  w?: string;
  s: number;
}

export function storeRow(row: LedgerRow): string {
  const stored: StoredRow = {
    e: row.exists === undefined ? -1 : row.exists ? 1 : 0,
    ...(row.uncertain && { u: 1 }),
    ...(row.fingerprint !== undefined && { f: row.fingerprint }),
    ...(row.terminated && { x: 1 }),
    ...(row.variant !== undefined && { k: row.variant === "Person" ? "P" : "C" }),
    ...(row.watermark !== "" && { w: row.watermark }),
    s: row.provedAt,
  };
  return JSON.stringify(stored);
}

export function readRow(text: string): LedgerRow {
  const stored = JSON.parse(text) as StoredRow;
  return {
    exists: stored.e === -1 ? undefined : stored.e === 1,
    uncertain: stored.u === 1,
    fingerprint: stored.f,
    terminated: stored.x === 1,
    variant: stored.k === undefined ? undefined : stored.k === "P" ? "Person" : "Company",
    watermark: stored.w ?? "",
    provedAt: stored.s,
  };
}
