/** What people do with a record that waits: release, drop, cancel, forget; and what a verification finds. Pure. */
import {
  busyUntil,
  later,
  leftOf,
  newestOrders,
  ordersOf,
  provenOf,
  waitingIn,
  type KnownRecord,
  type Now,
  type Staged,
} from "./record.ts";
import type { LedgerRow, Orders } from "./ledger-row.ts";

/** Undefined: it is not as the caller thinks, and stays as it is. */
type Changed = KnownRecord | undefined;

/** A person has approved a held change. It waits from now on. */
export function release(known: KnownRecord, at: Now): Changed {
  const { staged } = known;
  if (staged?.phase !== "held") return undefined;
  const due = busyUntil(staged, at.now) ?? at.now;
  const waits: Staged = {
    ...staged,
    phase: "waits",
    approved: true,
    heldWhy: undefined,
    heldAt: undefined,
    heldFields: undefined,
    due,
    since: at.now,
    firstTime: at.now,
  };
  return { ...known, staged: waits };
}

/** Drops a held change: the relation stays as the service has it. */
export function drop(known: KnownRecord, at: Now): Changed {
  if (known.staged?.phase !== "held") return undefined;
  return { ...known, staged: leftOf(known.staged, at) };
}

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
  const { staged } = known;
  if (staged?.phase !== "waits" || staged.lane !== "bulk") return { kind: "kept" };
  if (staged.taken !== undefined && busyUntil(staged, at.now) !== undefined)
    return { kind: "busy" };
  if (staged.approved === true || staged.version > last) return { kind: "kept" };
  const record = { ...known, staged: leftOf(staged, at) };
  return { kind: "dropped", record, eventKeys: staged.eventKeys ?? [] };
}

/** What the next event of an erased record must still know; `isHeld`: a request is under way. */
export type Forgotten =
  | { readonly kind: "held" }
  | { readonly kind: "erased"; readonly row: LedgerRow | undefined; readonly isAbsent: boolean };

/** Erases a record, but for its orders. */
export function forget({ row, staged }: KnownRecord, at: Now): Forgotten {
  if (staged !== undefined && busyUntil(staged, at.now) !== undefined) return { kind: "held" };
  const orders = newestOrders({ row, staged });
  const isAbsent = row?.exists === false && !row.uncertain;
  if (row === undefined && orders.status === "")
    return { kind: "erased", row: undefined, isAbsent };
  return {
    kind: "erased",
    row: { ...provenOf(undefined, false), orders, provedAt: row?.provedAt ?? 0 },
    isAbsent,
  };
}

/**
 * Tells a record of a Redis that went back what was settled of it since: an older state that waits is dropped.
 * Of the relation itself the row says nothing: the ledger is warmed again.
 */
export function restore(
  known: KnownRecord,
  settled: Orders,
  at: Now,
): { readonly record: KnownRecord; readonly dropped: boolean } {
  const { row = provenOf(undefined, false), staged } = known;
  const newest = row.orders.status < settled.status ? settled : row.orders;
  const told = { ...row, orders: { ...newest, fields: later(settled.fields, row.orders.fields) } };
  if (staged === undefined || staged.phase === "left" || !isBehind(staged, row.orders, settled)) {
    return { record: { ...known, row: told }, dropped: false };
  }
  const left = leftOf(staged, at);
  // Its request may take effect after the service is listed.
  const uncertain = told.uncertain || left?.late === true;
  const dropped = waitingIn(staged) !== undefined;
  return { record: { ...known, row: { ...told, uncertain }, staged: left }, dropped };
}

/** Whether a newer event was settled, or the same one with newer fields. */
function isBehind(staged: Staged, known: Orders, settled: Orders): boolean {
  const { fields, status } = ordersOf(staged);
  if (status !== settled.status) return status < settled.status;
  return later(fields, known.fields) < settled.fields;
}

/**
 * The service has something else than was proven: the state is sent again, unless the record has changed since. Of a
 * spot check only the process that wrote it has the values.
 */
export function withdraw(known: KnownRecord, version: number, at: Now): Changed {
  const { row, staged } = known;
  if (staged?.phase !== "proven" || staged.version !== version) return undefined;
  // The service was read, and has something else: what the next update changes is not known.
  const uncertain = row && { ...row, uncertain: true, marks: undefined };
  if (staged.spotCheck === true) return { ...known, row: uncertain, staged: undefined };
  const { proof: _, provedAt: __, ...state } = staged;
  // Who pauses or cancels the lane bulk means imports, not this state. The late request has arrived by now: to verify
  // again what is sent again would never end where the service changes what it is sent.
  const waits: Staged = {
    ...state,
    phase: "waits",
    lane: "live",
    late: undefined,
    due: busyUntil(staged, at.now) ?? at.now,
    since: at.now,
    firstTime: at.now,
  };
  return { ...known, row: uncertain, staged: waits };
}

/** The service has what was proven, or nothing more can be found out. */
export function verified(known: KnownRecord, version: number): Changed {
  const { staged } = known;
  if (staged?.phase !== "proven" || staged.version !== version) return undefined;
  return { ...known, staged: undefined };
}

/** No proof was left to verify, only that a request was late: nobody knows what the service has. */
export function expire(known: KnownRecord): Changed {
  const { row, staged } = known;
  if (staged?.phase !== "left") return undefined;
  const isLate = staged.late === true;
  return {
    ...known,
    row: isLate && row !== undefined ? { ...row, uncertain: true } : row,
    staged: undefined,
  };
}
