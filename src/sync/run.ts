/** A worker takes the newest state of a record, and gives it back once the service has replied. Pure. */
import { staysAfter } from "./letter.ts";
import {
  busyUntil,
  leftOf,
  newestOrders,
  provenOf,
  writerAfter,
  type KnownRecord,
  type Now,
  type RunCount,
  type Settlement,
  type SettleResult,
  type Staged,
  type TakenState,
} from "./record.ts";
import type { LedgerRow } from "./ledger-row.ts";

export type TakeResult =
  | {
      readonly kind: "taken";
      readonly record: KnownRecord;
      readonly staged: Staged;
      readonly row: LedgerRow;
    }
  | { readonly kind: "nothing" }
  | { readonly kind: "busy"; readonly until: number };

/**
 * Takes what waits. From here on the row is uncertain, also after a crash, and this state may be on the service, so
 * nothing older may follow it: its orders count as settled.
 * @param holdMs for how long no other worker may take the record if this one dies now.
 */
export function take(known: KnownRecord, by: string, holdMs: number, at: Now): TakeResult {
  const { row, staged: before } = known;
  if (before?.phase !== "waits") return { kind: "nothing" };
  const until = busyUntil(before, at.now);
  if (until !== undefined && before.taken?.by !== by) return { kind: "busy", until };
  const proven = provenOf(row, at.warm);
  // A worker that never settled may have left a request behind.
  const late = before.late === true || before.taken !== undefined;
  const heldUntil = at.now + holdMs;
  const staged: Staged = {
    ...before,
    due: heldUntil,
    heldUntil,
    newer: undefined,
    // What was read of the kept fields is for this run alone.
    kept: undefined,
    late: late || undefined,
    taken: { by, version: before.version, row, place: before.taken?.place ?? before.due },
  };
  const taken = {
    ...(row ?? provenOf(undefined, false)),
    uncertain: true,
    orders: newestOrders({ row, staged: before }),
    writer: writerAfter(row?.writer, before.fields?.writer),
  };
  return {
    kind: "taken",
    record: { ...known, row: taken, staged },
    staged: { ...before, late: staged.late },
    row: proven,
  };
}

export interface SettleInput extends Settlement {
  /** The sealed texts of `payload` and `kept`. */
  readonly found: string | undefined;
  readonly keptValues: string | undefined;
  /** Of the state that was taken. */
  readonly sent: Pick<TakenState, "status" | "payload" | "eventOrder" | "orders" | "without">;
}

export interface Settled {
  readonly record: KnownRecord;
  readonly result: SettleResult;
}

export function settle(known: KnownRecord, by: string, how: SettleInput, at: Now): Settled {
  const { staged } = known;
  if (staged?.taken === undefined || staged.taken.by !== by)
    return { record: known, result: "lost" };
  const row = rowAfter(known.row, staged, how);
  const isNewer = staged.version !== staged.taken.version;
  const late = staged.late === true || how.late === true;
  if (how.finished && !isNewer) {
    return {
      record: {
        row,
        staged: afterProof(staged, row, how, late, at),
        letter: letterAfterProof(known, how),
      },
      result: "settled",
    };
  }
  const back = givenBack(staged, how, { isNewer, late, now: at.now });
  return { record: { ...known, row, staged: back }, result: isNewer ? "more" : "settled" };
}

function rowAfter(
  row: LedgerRow | undefined,
  { taken }: Staged,
  how: SettleInput,
): LedgerRow | undefined {
  const { row: next } = how;
  if (next === "uncertain") return row;
  const pace = row?.pace && { pace: row.pace };
  const since = row?.since === undefined ? {} : { since: row.since };
  if (next !== "before") {
    const without = how.finished ? how.sent.without : row?.without;
    return { ...next, writer: row?.writer, without, ...since, ...pace };
  }
  // The ledger may have been forgotten, or listed, meanwhile: the old row must not come back then.
  if (row?.uncertain !== true) return row;
  return taken?.row === undefined
    ? pace && { ...provenOf(undefined, false), ...pace }
    : { ...taken.row, ...pace };
}

/** What stays of a state that has ended: what must be verified, or how long no worker may take the record. */
function afterProof(
  staged: Staged,
  row: LedgerRow | undefined,
  how: SettleInput,
  late: boolean,
  at: Now,
): Staged | undefined {
  const heldUntil = how.holdMs === undefined || how.holdMs === 0 ? undefined : at.now + how.holdMs;
  const isChecked = late || how.spotCheck === true;
  const isProven =
    isChecked && typeof how.row === "object" && !how.row.uncertain && row !== undefined;
  if (!isProven) {
    return leftOf({ ...staged, late: late || undefined, taken: undefined, heldUntil }, at);
  }
  const { event: _, ...status } = staged.status;
  return {
    ...staged,
    // A spot check compares hashes: no values are kept for it.
    ...(!late && { fields: undefined, status, found: undefined, about: undefined }),
    phase: "proven",
    // Of its tries, the next ones know nothing.
    counts: undefined,
    firstTryAt: undefined,
    failure: undefined,
    doubt: undefined,
    kept: undefined,
    due: Math.max(at.now + at.verifyMs, heldUntil ?? 0),
    late: late || undefined,
    spotCheck: !late || undefined,
    taken: undefined,
    heldUntil,
    proof: { exists: row.exists, fingerprint: row.fingerprint },
    provedAt: at.now,
  };
}

/** A letter goes once the service has what it says. */
function letterAfterProof(
  { letter, staged }: KnownRecord,
  how: SettleInput,
): KnownRecord["letter"] {
  if (letter === undefined || staged === undefined) return letter;
  if (typeof how.row !== "object" || how.dead === true) return letter;
  const { eventOrder, orders, payload, status } = how.sent;
  const own = payload !== undefined && eventOrder === orders.fields ? eventOrder : "";
  const fields = status === "terminated" ? "ended" : own;
  return staysAfter(letter, { status: staged.status.order, fields }) ? letter : undefined;
}

/** The state waits again, or a newer one does. */
function givenBack(
  staged: Staged,
  how: SettleInput,
  {
    isNewer,
    late,
    now,
  }: { readonly isNewer: boolean; readonly late: boolean; readonly now: number },
): Staged {
  const heldUntil = how.holdMs === undefined || how.holdMs === 0 ? undefined : now + how.holdMs;
  const open = {
    ...staged,
    taken: undefined,
    newer: undefined,
    heldUntil,
    late: late || undefined,
  };
  // Without a delay it goes back to its place in the line.
  const later = Math.max(heldUntil ?? 0, isNewer ? 0 : (how.retryAt ?? 0));
  const place = how.finished ? now : (staged.taken?.place ?? now);
  const due = later > 0 ? later : place;
  if (how.held !== undefined && !isNewer) {
    // The service may have other fields by the time of the release: they are read again then.
    return {
      ...open,
      phase: "held",
      heldWhy: how.held,
      heldAt: now,
      heldFields: how.heldFields,
      counts: undefined,
      firstTryAt: undefined,
      failure: undefined,
      found: undefined,
      doubt: how.doubt,
    };
  }
  if (how.finished) {
    const { newer } = staged;
    return {
      ...open,
      due,
      firstTime: newer?.time ?? staged.time,
      since: newer?.since ?? now,
      counts: undefined,
      firstTryAt: undefined,
      failure: undefined,
      doubt: undefined,
    };
  }
  return {
    ...open,
    due,
    // Newer fields do without what was read.
    found: isNewer && staged.fields !== undefined ? staged.found : (how.found ?? staged.found),
    // The kept values are the service's, so a newer state needs the same ones.
    kept: how.keptValues === undefined ? staged.kept : { values: how.keptValues, at: now },
    counts: countUp(staged.counts, how.counts ?? []),
    firstTryAt:
      how.counts?.includes("tries") === true ? (staged.firstTryAt ?? now) : staged.firstTryAt,
    failure: failureAfter(staged, how, { isNewer, now }),
    doubt: isNewer ? undefined : how.doubt,
  };
}

/** A newer state has not failed; a try that tells nothing leaves what is known. */
function failureAfter(
  { failure }: Staged,
  { failure: reason }: SettleInput,
  { isNewer, now }: { readonly isNewer: boolean; readonly now: number },
): Staged["failure"] {
  if (isNewer) return undefined;
  return reason === undefined ? failure : { reason, since: failure?.since ?? now };
}

function countUp(before: Staged["counts"], counts: readonly RunCount[]): Staged["counts"] {
  if (counts.length === 0) return before;
  const after: Partial<Record<RunCount, number>> = { ...before };
  for (const count of counts) after[count] = (after[count] ?? 0) + 1;
  return after;
}
