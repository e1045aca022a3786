/**
 * A worker takes the newest state of a record, and gives it back once the service has replied. Each run ends in
 * `settle`, whatever became of it: a request that may still take effect stays marked in the row. Pure.
 */
import type { Lane } from "../event/lane.ts";
import type { Keeps } from "./keeps.ts";
import {
  bringsFields,
  busyUntil,
  isSent,
  newestOrders,
  opened,
  provenOf,
  writerAfter,
} from "./known.ts";
import type { LedgerRow, Orders, Without } from "./ledger-row.ts";
import { staysAfter } from "./letter.ts";
import type { WantedStatus } from "./mapped.ts";
import type {
  Change,
  Confirm,
  HeldWhy,
  KnownRecord,
  Now,
  RunCount,
  Taken,
  Tries,
} from "./record.ts";
import type { StateToStage } from "./stage.ts";

/** A change that one worker has taken; no other may take the record until it is settled. Its texts are open. */
export interface TakenState {
  readonly crmCode: string;
  /** Identifies the worker that took it. */
  readonly token: string;
  readonly lane: Lane;
  readonly status: WantedStatus;
  readonly orders: Orders;
  /** What an event brought, or what was read from the service because none did. */
  readonly payload: string | undefined;
  /** The event that brought the fields, or the newest one where these are not an event's. */
  readonly event: string;
  /** Order of `event`. */
  readonly eventOrder: string;
  /** The newest event, as far as it is known: it led to this change. */
  readonly newestEvent: string;
  /** Fields that the CRM has and that were not understood: they are kept, too. */
  readonly notUnderstood: readonly string[];
  /** The kept fields of the mapping. */
  readonly keeps: Keeps;
  /** What the service has in them, serialised: read for this run alone. */
  readonly kept: string | undefined;
  /** The change itself, with its texts sealed. */
  readonly change: Change;
  /** Of the record in the CRM. */
  readonly owner?: string | undefined;
  /** The ledger's row before it was taken; what a list has shown when there was none. */
  readonly row: LedgerRow;
}

/** What the ledger says of the fields once the change is settled. */
export const withoutOf = ({
  change,
  row,
}: Pick<TakenState, "change" | "row">): Without | undefined =>
  change.fields === undefined ? row.without : change.fields.without;

export type Take =
  | { readonly kind: "taken"; readonly state: TakenState }
  | { readonly kind: "nothing" }
  /** A change waited, and its state is gone from Redis. */
  | { readonly kind: "lost" }
  /** Another worker holds it until then, ms. */
  | { readonly kind: "busy"; readonly until: number };

/** How many of its requests have changed nothing. */
export const triesIn = ({ failed = 0, refused = 0 }: Tries = {}): number => failed + refused;

/** How a worker gives a taken change back. */
export interface Settlement {
  /** The ledger's new row; `before`: as it was; `unknown`: nothing is known until the next reply. */
  readonly row: LedgerRow | "before" | "unknown";
  /** Whether this state is finished: sent, or given up. */
  readonly finished: boolean;
  /** Its request may still take effect; for so long no worker may take the record, ms. */
  readonly openMs?: number | undefined;
  /** The request was a write. If another worker has taken the record meanwhile, it is not known which write came last. */
  readonly wrote?: boolean;
  /** The relation was read so late that no earlier request takes effect any more. */
  readonly confirmed?: boolean;
  /** The next run reads first; of a finished one, the change is read once more later. */
  readonly confirm?: Confirm | undefined;
  /** When it is tried again, ms; undefined: at once. */
  readonly retryAt?: number | undefined;
  /** Counts one more of each. */
  readonly counts?: readonly RunCount[];
  /** Why the try failed, as people read it. */
  readonly failure?: string | undefined;
  /** What the service has, serialised: because no event brought fields, and of the kept fields, for the next run. */
  readonly payload?: string;
  readonly kept?: string | undefined;
  /** It waits until a person releases it. */
  readonly held?: { readonly why: HeldWhy; readonly fields?: readonly string[] };
  /** The change has become a dead letter. */
  readonly dead?: boolean;
}

/** `more`: a newer state waits. `lost`: another worker has taken the record over. */
export type SettleResult = "settled" | "more" | "lost";

/** After this long a relation is read once more when an earlier request may have taken effect since, ms. */
export const VERIFY_AFTER_MS = 300_000;

export type TakeResult =
  | {
      readonly kind: "taken";
      readonly record: KnownRecord;
      /** As it was, and what was proven then. */
      readonly change: Change;
      readonly row: LedgerRow;
    }
  | { readonly kind: "nothing" }
  /** Another worker holds it until then, ms. */
  | { readonly kind: "busy"; readonly until: number };

/**
 * Takes what waits. From here on the row is uncertain, also after a crash, and this state may be on the service, so
 * nothing older may follow it: its orders count as settled.
 * @param holdMs for how long no other worker may take the record if this one dies now.
 */
export function take(known: KnownRecord, by: string, holdMs: number, at: Now): TakeResult {
  const { staged: change } = known;
  if (change === undefined || change.held !== undefined) return { kind: "nothing" };
  const busy = busyUntil(known, at.now);
  if (busy !== undefined && change.taken?.by !== by) return { kind: "busy", until: busy };
  // A worker that never settled may have left a request behind.
  const row = change.taken === undefined ? known.row : opened(known.row, change.taken.until);
  const until = at.now + holdMs;
  const taken: Taken = { by, version: change.version, until, row };
  const { found } = change.read ?? {};
  const staged: Change = {
    ...change,
    due: until,
    // What was read of the kept fields is for this run alone.
    read: found === undefined ? undefined : { found },
    taken,
  };
  const underWay: LedgerRow = {
    ...(row ?? provenOf(undefined, false)),
    uncertain: true,
    openUntil: until,
    orders: newestOrders(known),
    writer: writerAfter(row?.writer, change.fields?.writer),
  };
  return {
    kind: "taken",
    record: { ...known, row: underWay, staged },
    change,
    row: provenOf(row, at.warm),
  };
}

export interface SettleInput extends Settlement {
  /** The sealed texts of `payload` and `kept`. */
  readonly found: string | undefined;
  readonly keptValues: string | undefined;
  /** Of the state that was taken. */
  readonly sent: Pick<TakenState, "status" | "payload" | "eventOrder" | "orders"> & {
    readonly without?: Without | undefined;
  };
}

export interface Ended {
  readonly record: KnownRecord;
  readonly result: SettleResult;
  /**
   * Of `lost`: its write may be older than what was settled meanwhile (Redis went back, or this process stopped for
   * minutes), and no change waits that would correct it.
   */
  readonly isLate?: boolean;
}

/** The one end of a run. */
export function settle(known: KnownRecord, by: string, how: SettleInput, at: Now): Ended {
  const { staged: change } = known;
  const taken = change?.taken;
  if (change === undefined || taken?.by !== by) {
    if (how.wrote !== true) return { record: known, result: "lost" };
    const row = opened(known.row, at.now + (how.openMs ?? 0));
    return { record: { ...known, row }, result: "lost", isLate: change === undefined };
  }
  const row = rowAfter(known.row, taken, how, at.now);
  if (change.version !== taken.version) {
    return {
      record: { ...known, row, staged: newerWaits(change, taken, row, how, at) },
      result: "more",
    };
  }
  if (!how.finished) {
    return {
      record: { ...known, row, staged: givenBack(change, row, how, at) },
      result: "settled",
    };
  }
  const confirm = confirmLater(row, how, at.now);
  return {
    record: {
      row,
      staged: confirm && standsAgain(change, confirm, at),
      letter: letterAfter(known, how),
    },
    result: "settled",
  };
}

/** The row once the run has ended. What may still take effect is marked, whatever else became of the row meanwhile. */
function rowAfter(
  row: LedgerRow | undefined,
  { row: before, until }: Taken,
  how: SettleInput,
  now: number,
): LedgerRow | undefined {
  const open = [
    // Of an earlier request, of somebody who has settled meanwhile, and its own one.
    how.confirmed === true ? undefined : before?.openUntil,
    row?.openUntil === until ? undefined : row?.openUntil,
    how.openMs === undefined ? undefined : now + how.openMs,
  ].filter((one) => one !== undefined);
  const openUntil = open.length > 0 ? Math.max(...open) : undefined;
  const next = rowWithoutMarks(row, before, how);
  if (next === undefined) return openUntil === undefined ? undefined : opened(undefined, openUntil);
  return { ...next, uncertain: next.uncertain || openUntil !== undefined, openUntil };
}

function rowWithoutMarks(
  row: LedgerRow | undefined,
  before: LedgerRow | undefined,
  { finished, row: next, sent }: SettleInput,
): LedgerRow | undefined {
  const { pace, since, without, writer } = row ?? {};
  if (typeof next === "object") {
    return { ...next, pace, since, writer, without: finished ? sent.without : without };
  }
  if (row === undefined || next === "unknown")
    return row && { ...row, uncertain: true, written: undefined };
  // The ledger may have been forgotten, and listed, meanwhile: the old row must not come back then.
  const isSame = row.exists === before?.exists && row.fingerprint === before?.fingerprint;
  if (!isSame) return { ...row, uncertain: true };
  if (before !== undefined) return { ...before, pace };
  return pace && { ...provenOf(undefined, false), pace };
}

/** Whether what was proven is read once more: an earlier request may still take effect, or it is a spot check. */
function confirmLater(
  row: LedgerRow | undefined,
  how: SettleInput,
  now: number,
): Confirm | undefined {
  // Of a change that has become a dead letter, the service need not have anything.
  if (how.dead === true || typeof how.row !== "object" || how.row.uncertain) return undefined;
  return row?.openUntil === undefined ? how.confirm : { why: "late", since: now };
}

/** The change is on the service, and stands in its line again, to be read once more. */
const standsAgain = (change: Change, confirm: Confirm, { now, verifyMs }: Now): Change => ({
  ...change,
  place: now,
  due: now + verifyMs,
  // Of its tries, the next ones know nothing.
  tries: undefined,
  confirm,
  taken: undefined,
});

/** A letter goes once the service has what it says. */
function letterAfter({ letter, staged }: KnownRecord, how: SettleInput): KnownRecord["letter"] {
  if (letter === undefined || staged === undefined) return letter;
  if (typeof how.row !== "object" || how.dead === true) return letter;
  const { eventOrder, orders, payload, status } = how.sent;
  const own = payload !== undefined && eventOrder === orders.fields ? eventOrder : "";
  const fields = status === "terminated" ? "ended" : own;
  return staysAfter(letter, { status: staged.status.order, fields }) ? letter : undefined;
}

/** A newer state came while this one was under way: it has not failed, and nothing of it is open. */
function newerWaits(
  change: Change,
  { newer }: Taken,
  row: LedgerRow | undefined,
  how: SettleInput,
  { now }: Now,
): Change {
  const due = busyUntil({ row, staged: undefined }, now);
  const open = { ...change, taken: undefined, confirm: undefined, due };
  if (how.finished) {
    const { since = now, time = change.firstTime } = newer ?? {};
    return { ...open, place: now, since, firstTime: time, tries: undefined };
  }
  // Newer fields do without what was read.
  const found =
    change.fields === undefined ? (how.found ?? change.read?.found) : change.read?.found;
  const { why: _, since: __, ...counts } = countUp(change.tries, how, now) ?? {};
  return { ...open, read: readAfter(found, change, how, now), tries: counts };
}

/** The change waits again, or for a person. */
function givenBack(change: Change, row: LedgerRow | undefined, how: SettleInput, at: Now): Change {
  const { now } = at;
  const busy = busyUntil({ row, staged: undefined }, now) ?? 0;
  const due = Math.max(busy, how.retryAt ?? 0) || undefined;
  const open: Change = { ...change, taken: undefined, confirm: how.confirm, due };
  if (how.held !== undefined) {
    // The service may have other fields by the time of the release: they are read again then.
    return { ...open, held: { ...how.held, at: now }, tries: undefined, read: undefined };
  }
  if (isSent(change) && how.confirm === undefined) {
    // The service has something else: it is sent again. Who pauses or cancels the lane bulk means imports, not this.
    return { ...open, lane: "live", place: now, since: now, firstTime: now };
  }
  return {
    ...open,
    read: readAfter(how.found ?? change.read?.found, change, how, now),
    tries: countUp(change.tries, how, now),
  };
}

function readAfter(
  found: string | undefined,
  { read }: Change,
  { keptValues }: SettleInput,
  now: number,
): Change["read"] {
  const kept =
    keptValues === undefined
      ? { kept: read?.kept, keptAt: read?.keptAt }
      : { kept: keptValues, keptAt: now };
  if (found === undefined && kept.kept === undefined) return undefined;
  return {
    ...(found !== undefined && { found }),
    ...(kept.kept !== undefined && { kept: kept.kept, keptAt: kept.keptAt ?? now }),
  };
}

/** A try that tells nothing leaves what is known. */
function countUp(
  before: Tries | undefined,
  { counts = [], failure }: SettleInput,
  now: number,
): Tries | undefined {
  if (counts.length === 0 && failure === undefined) return before;
  const after: { -readonly [Name in keyof Tries]: Tries[Name] } = { ...before };
  for (const count of counts) after[count] = (after[count] ?? 0) + 1;
  if (counts.includes("failed")) after.firstAt ??= now;
  if (failure !== undefined) {
    after.why = failure;
    after.since ??= now;
  }
  return after;
}

/** The state to stage again, with the orders of its own events: whatever is newer stays newer. */
export function onceMore(state: TakenState): StateToStage {
  const { change, crmCode, event, newestEvent, notUnderstood, orders, payload, status } = state;
  const hasFields = payload !== undefined && bringsFields(state);
  return {
    crmCode,
    eventKey: "",
    order: orders.status,
    ...(hasFields && { fieldsOrder: orders.fields }),
    payload: hasFields ? payload : undefined,
    fingerprint: undefined,
    notUnderstood,
    without: withoutOf(state),
    variant: change.fields?.variant,
    status,
    // Nobody may drop it with an import, and it must not wait behind one.
    lane: "live",
    time: change.firstTime,
    event: hasFields ? event : newestEvent,
  };
}
