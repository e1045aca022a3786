import type { Variant } from "../spec/business-relation.ts";

/** What is known of one crmCode on the service. */
export interface LedgerRow {
  /** Whether the service has it; undefined when nobody knows. */
  readonly exists: boolean | undefined;
  /**
   * True while a request is under way or ended ambiguously: what is on the service is then
   * either the rest of this row or what that request carried.
   */
  readonly uncertain: boolean;
  readonly fingerprint: string | undefined;
  readonly terminated: boolean;
  readonly variant: Variant | undefined;
  /** Newest event order settled; "" when none was. */
  readonly watermark: string;
  /** When it was last proved, ms. */
  readonly provedAt: number;
}

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
