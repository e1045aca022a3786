/** The ledger's rows as Redis has them. */
import type { LedgerRow } from "../sync/ledger-row.ts";

/** One-letter names, because there is a row for every relation. */
interface StoredRow {
  /** Whether the relation exists; -1: unknown. */
  e: 1 | 0 | -1;
  /** Uncertain. */
  u?: 1;
  /** Fingerprint. */
  f?: string;
  /** Terminated. */
  x?: 1;
  /** Variant. */
  k?: "P" | "C";
  /** Watermark. */
  w?: string;
  /** Order of the earlier fields, and the status of the event of the watermark. */
  wf?: string;
  ws?: "terminated" | "active";
  /** Assumed to be absent because a list was empty, when the record was deleted (stage.lua). */
  a?: 1;
  /** When it was last proven, ms. */
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
    ...(row.earlierFields && { wf: row.earlierFields.order, ws: row.earlierFields.status }),
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
    ...(stored.wf !== undefined &&
      stored.ws !== undefined && { earlierFields: { order: stored.wf, status: stored.ws } }),
    provedAt: stored.s,
  };
}
