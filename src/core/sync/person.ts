/** What an operator does with a waiting record: release, drop, cancel, forget; and how a record is corrected after Redis has lost its newest data. Pure. */
import {
  busyUntil,
  later,
  left,
  newestOrders,
  opened,
  ordersOf,
  provenOf,
  waitingIn,
} from "./known.ts";
import type { LedgerRow, Orders } from "./ledger-row.ts";
import type { Change, KnownRecord, Now } from "./record.ts";

/** Undefined: it is not as the caller thinks, and stays as it is. */
type Changed = KnownRecord | undefined;

/** A person has approved a held change. It waits from now on. */
export function release(known: KnownRecord, at: Now): Changed {
  const { row, staged } = known;
  if (staged?.held === undefined) return undefined;
  // What the service shows is sent back then, whatever was proven.
  const isBelieved = staged.held.why === "differs" && row !== undefined;
  const waits: Change = {
    ...staged,
    held: undefined,
    approved: true,
    place: at.now,
    due: busyUntil(known, at.now),
    since: at.now,
    firstTime: at.now,
  };
  return { ...known, row: isBelieved ? { ...row, written: undefined } : row, staged: waits };
}

/** Drops a held change: the relation stays as the service has it. */
export const drop = (known: KnownRecord): Changed =>
  known.staged?.held === undefined ? undefined : left(known);

/** `busy`: a request is under way. `kept`: it is no bulk change, or came after the person has looked. */
export type Cancelled =
  | { readonly kind: "busy" | "kept" }
  | {
      readonly kind: "dropped";
      readonly record: KnownRecord;
      readonly eventKeys: readonly string[];
    };

/** Drops a bulk change that waits. @param last leaves alone what was staged with a higher version. */
export function cancel(known: KnownRecord, last: number, at: Now): Cancelled {
  const staged = waitingIn(known.staged);
  if (staged === undefined || staged.held !== undefined || staged.lane !== "bulk")
    return { kind: "kept" };
  if (staged.taken !== undefined && busyUntil(known, at.now) !== undefined) return { kind: "busy" };
  if (staged.approved === true || staged.version > last) return { kind: "kept" };
  const keys = [staged.fields?.key, staged.status.key].filter((key) => key !== undefined);
  return { kind: "dropped", record: left(known), eventKeys: [...new Set(keys)] };
}

/** What the next event of an erased record must still know; `isHeld`: a request is under way. */
export type Forgotten =
  | { readonly kind: "held" }
  | { readonly kind: "erased"; readonly row: LedgerRow | undefined; readonly isAbsent: boolean };

/** Erases a record, but for its orders, and for a request that may still take effect. */
export function forget(known: KnownRecord, at: Now): Forgotten {
  if (busyUntil(known, at.now) !== undefined) return { kind: "held" };
  const { row } = left(known);
  const orders = newestOrders(known);
  const isAbsent = row?.exists === false && !row.uncertain;
  if (row === undefined && orders.status === "")
    return { kind: "erased", row: undefined, isAbsent };
  const open = row?.openUntil !== undefined && { uncertain: true, openUntil: row.openUntil };
  return {
    kind: "erased",
    row: { ...provenOf(undefined, false), orders, provedAt: row?.provedAt ?? 0, ...open },
    isAbsent,
  };
}

/**
 * Tells a record of a Redis that went back what was settled of it since: an older state that waits is dropped.
 * Of the relation itself the row says nothing: the ledger is warmed again.
 * @param openUntil of a request that may still take effect, ms
 */
export function restore(
  known: KnownRecord,
  settled: Orders,
  openUntil?: number,
): { readonly record: KnownRecord; readonly dropped: boolean } {
  const { row = provenOf(undefined, false), staged } = known;
  const newest = row.orders.status < settled.status ? settled : row.orders;
  const orders = { ...newest, fields: later(settled.fields, row.orders.fields) };
  const told = openUntil === undefined ? { ...row, orders } : { ...opened(row, openUntil), orders };
  if (staged === undefined || !isBehind(staged, row.orders, settled)) {
    return { record: { ...known, row: told }, dropped: false };
  }
  const dropped = waitingIn(staged) !== undefined;
  return { record: left({ ...known, row: told }), dropped };
}

/** Whether a newer event was settled, or the same one with newer fields. */
function isBehind(staged: Change, known: Orders, settled: Orders): boolean {
  const { fields, status } = ordersOf(staged);
  if (status !== settled.status) return status < settled.status;
  return later(fields, known.fields) < settled.fields;
}
