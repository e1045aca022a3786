/**
 * Stages the newest state of a record: each of its two registers takes what is newer than itself. What the
 * ledger proves to need no request is settled here, also while the quota is exhausted. Pure.
 */
import { agreesWithRow } from "./fingerprint.ts";
import type { Lane } from "../event/lane.ts";
import { NO_ORDERS, type LedgerRow, type Orders, type Pace } from "./ledger-row.ts";
import { letterAfter } from "./letter.ts";
import {
  busyUntil,
  isPending,
  isSuperseded,
  later,
  newestOrders,
  provenOf,
  waitingIn,
  writerAfter,
  type FieldsRegister,
  type KnownRecord,
  type Now,
  type Staged,
  type StageResult,
  type StateToStage,
  type StatusRegister,
} from "./record.ts";

/** What is staged, with its texts sealed, and what the order of service says (rank.ts). */
export interface StageInput extends Omit<StateToStage, "keeps" | "noted" | "owner"> {
  /** Sealed. */
  readonly about?: string | undefined;
  /** Where a live record stands that begins to wait, and one that waits at this rank and has changed again. */
  readonly rank: { readonly first: number; again(rank: number): number };
  /** What the change teaches of how often the record changes; undefined: nothing. */
  readonly pace: Pace | undefined;
}

export interface Staging extends StageResult {
  readonly record: KnownRecord;
}

export function stage(known: KnownRecord, input: StageInput, at: Now): Staging {
  const newest = newestOrders(known);
  const own = ownOrders(input);
  const takesFields = input.payload !== undefined && own.fields >= newest.fields;
  const takesStatus = input.order >= newest.status;
  const isRepeated = input.order === newest.status && input.payload !== undefined;
  if (!takesFields && (!takesStatus || isRepeated)) {
    const staged = takenAlong(known, input, own.fields, at);
    const differs = saysOther(known, input, newest);
    return { record: { ...known, staged }, result: "superseded", coalesced: false, differs };
  }
  const waiting = waitingIn(known.staged)?.fields;
  const fields = takesFields
    ? fieldsOf(input, own.fields, waiting)
    : keptFields(known.staged, input);
  const status = statusAfter(known, input, { takesFields, takesStatus, newest });
  const letter = letterAfter(known.letter, {
    order: status.order,
    is: status.is,
    ownFields: takesFields && own.fields === own.event ? own.fields : "",
    newestFields: newest.fields,
  });
  const isWhole = takesFields && status.order === input.order;
  const wanted = { fields, status, fingerprint: isWhole ? input.fingerprint : undefined };
  const settledAs = settledWithout(known, wanted, { takesFields, leaves: input.leaves }, at);
  const after = { ...known, letter };
  return settledAs === undefined
    ? stageChange(after, wanted, input, at)
    : settleAtOnce(after, wanted, newest, settledAs, at);
}

/** Orders of the event that brought the payload, and of its fields. */
const ownOrders = ({ fieldsOrder, order, payload }: StageInput) => ({
  event: fieldsOrder ?? order,
  fields: payload === undefined ? "" : (fieldsOrder ?? order),
});

const fieldsOf = (
  input: StageInput,
  order: string,
  before: FieldsRegister | undefined,
): FieldsRegister => ({
  order,
  payload: input.payload ?? "",
  notUnderstood: input.notUnderstood?.length ? input.notUnderstood : undefined,
  without: input.without,
  variant: input.variant,
  event: input.event,
  writer: writerAfter(before?.writer, input.writer),
});

/** The fields that wait stay; but not with a redriven event whose fields are newer and not usable. */
function keptFields(
  staged: Staged | undefined,
  { fieldsOrder, hasUnusedRecord }: StageInput,
): FieldsRegister | undefined {
  const isRedriven = hasUnusedRecord === true && fieldsOrder !== undefined;
  return staged === undefined || staged.phase === "proven" || isRedriven
    ? undefined
    : staged.fields;
}

function statusAfter(
  { letter, row, staged }: KnownRecord,
  input: StageInput,
  {
    newest,
    takesFields,
    takesStatus,
  }: { newest: Orders; takesFields: boolean; takesStatus: boolean },
): StatusRegister {
  const { event, fieldsOrder: eventOrder, order, status: is } = input;
  if (!takesFields) {
    return {
      order,
      is,
      event,
      eventOrder,
      ...(input.hasUnusedRecord === true && { hasRecord: true }),
    };
  }
  // The dead letter is of a newer event, and that one decides the status.
  const known = takesStatus ? order : newest.status;
  if (letter !== undefined && letter.is !== "mapped" && known < letter.order) {
    return { order: letter.order, is: letter.is };
  }
  if (takesStatus) return { order, is };
  // The newest event brought no record: this event's fields are the newest, its status is not.
  return staged?.status.order === newest.status
    ? staged.status
    : { order: newest.status, is: row?.orders.is ?? "mapped" };
}

interface Wanted {
  readonly fields: FieldsRegister | undefined;
  readonly status: StatusRegister;
  /** Of the fields with this status; undefined when it is not known. */
  readonly fingerprint: string | undefined;
}
type SettledAs = "unchanged" | "nothing_to_terminate";

/** What the ledger proves to need no request; undefined: a worker must take the state. */
function settledWithout(
  { row, staged }: KnownRecord,
  { fields, fingerprint, status }: Wanted,
  { leaves, takesFields }: { takesFields: boolean; leaves: boolean | undefined },
  { warm }: Now,
): SettledAs | undefined {
  const proven = provenOf(row, warm);
  // While a request is under way, or an earlier one may still take effect, what is proven must be verified.
  const isOpen = staged !== undefined && (staged.late === true || staged.taken !== undefined);
  if (proven.exists === undefined || proven.uncertain || isOpen) return undefined;
  if (!proven.exists) {
    return status.is === "terminated" && (proven.byList !== true || leaves === true)
      ? "nothing_to_terminate"
      : undefined;
  }
  const isSame = agreesWithRow(fingerprint, proven);
  if (status.is === "terminated" && proven.terminated) {
    // A terminated relation takes newer fields, but not those of the other variant.
    const isOther =
      takesFields && proven.variant !== undefined && proven.variant !== fields?.variant;
    if (fields === undefined || isSame || isOther) return "nothing_to_terminate";
  }
  if (takesFields && isSame) return "unchanged";
  return status.is === "active" && fields === undefined && !proven.terminated
    ? "unchanged"
    : undefined;
}

function settleAtOnce(
  { letter, row, staged }: KnownRecord,
  { fields, status }: Wanted,
  newest: Orders,
  result: SettledAs,
  at: Now,
): Staging {
  const proven = provenOf(row, at.warm);
  const settled: LedgerRow = {
    ...proven,
    orders: {
      fields: later(fields?.order ?? "", newest.fields),
      status: status.order,
      is: status.is,
    },
    // The service was not asked, so the time of the proof stays. That of an absent relation does not: old rows
    // are deleted, and its orders must stay.
    provedAt: proven.exists === false ? at.now : proven.provedAt,
    writer: writerAfter(row?.writer, fields?.writer),
    without: fields === undefined ? row?.without : fields.without,
  };
  // The record has ended: what was wrong with its fields no longer matters.
  const isGone =
    result === "nothing_to_terminate" && letter !== undefined && status.order >= letter.order;
  return {
    record: { row: settled, staged: undefined, letter: isGone ? undefined : letter },
    result,
    coalesced: isPending(staged),
  };
}

function stageChange(
  { letter, row, staged: before }: KnownRecord,
  wanted: Wanted,
  input: StageInput,
  at: Now,
): Staging {
  const { fields, status } = wanted;
  // What was proven, or given up, leaves only what is still open of it.
  const waits =
    before !== undefined && (before.phase === "waits" || before.phase === "held")
      ? before
      : undefined;
  const lane: Lane = waits?.lane === "live" ? "live" : input.lane;
  // What a person has approved or holds is a termination only if the state that waits is one.
  const ending =
    status.is === "terminated" && waits?.status.is === "terminated" ? waits : undefined;
  const isApproved = ending?.approved === true;
  const isOther = !isApproved && isOfOther([row?.writer, waits?.fields?.writer], input);
  const held = ending?.phase === "held" ? ending : undefined;
  const isHeld = status.is === "terminated" && (held !== undefined || isOther);
  const phase = isHeld ? "held" : "waits";
  const taken = waits?.taken;
  const late = before?.late === true;
  const staged: Staged = {
    version: Math.max(at.nowUs, (before?.version ?? 0) + 1),
    phase,
    lane,
    due: dueOf(waits, lane, input, at),
    since: waits?.phase === phase ? waits.since : at.now,
    time: input.time,
    firstTime: waits?.firstTime ?? input.time,
    ...wanted,
    unusable: fields === undefined ? (waits?.fields?.order ?? waits?.unusable) : undefined,
    newer: taken === undefined ? undefined : (waits?.newer ?? { time: input.time, since: at.now }),
    eventKeys: lane === "bulk" ? eventKeysOf(waits, wanted, input) : undefined,
    trace: input.trace,
    heldWhy: isHeld ? (held?.heldWhy ?? "other_record") : undefined,
    heldAt: isHeld ? (held?.heldAt ?? at.now) : undefined,
    approved: isApproved || undefined,
    counts: waits?.counts?.reads === undefined ? undefined : { reads: waits.counts.reads },
    late: late || undefined,
    found: fields === waits?.fields ? waits?.found : undefined,
    kept: waits?.kept,
    heldUntil: before && busyUntil(before, at.now),
    about: input.about ?? waits?.about,
    taken,
  };
  return {
    record: {
      row:
        input.pace === undefined
          ? row
          : { ...(row ?? provenOf(undefined, false)), pace: input.pace },
      staged,
      letter,
    },
    result: isHeld ? "held" : "staged",
    coalesced: isPending(before),
  };
}

/**
 * A live event that an import has overtaken: what waits has its change, and goes as a live change goes. An event that is
 * older than what was settled is no change any more.
 */
function takenAlong(
  { row, staged }: KnownRecord,
  input: StageInput,
  fields: string,
  at: Now,
): Staged | undefined {
  const waits = waitingIn(staged);
  if (waits?.lane !== "bulk" || input.lane !== "live") return staged;
  if (isSuperseded({ fields, status: input.order }, row?.orders ?? NO_ORDERS)) return staged;
  const due = waits.due > at.now ? waits.due : input.rank.first;
  return { ...waits, lane: "live", due, eventKeys: undefined };
}

/** Whether a superseded event says something else than what waits or was settled; false where that is not known. */
function saysOther(
  { row, staged }: KnownRecord,
  { fingerprint, payload, status }: StageInput,
  newest: Orders,
): boolean {
  if (payload === undefined) return (status === "terminated") !== (newest.is === "terminated");
  const known = waitingIn(staged) ?? row;
  if (known?.fingerprint === undefined) return false;
  return !agreesWithRow(fingerprint, { ...known, fingerprint: known.fingerprint });
}

/** A deletion of one record of the CRM must not end a relation that another one has written. */
const isOfOther = (writers: readonly (string | undefined)[], { writer }: StageInput): boolean =>
  writer !== undefined && writers.some((one) => one !== undefined && one !== writer);

/** Its place in the line. A new state has not failed: it does not wait for the retry of the one that it replaces. */
function dueOf(waits: Staged | undefined, lane: Lane, input: StageInput, at: Now): number {
  const busy = waits && busyUntil(waits, at.now);
  if (busy !== undefined) return busy;
  if (lane === "bulk") return waits?.due !== undefined && waits.due <= at.now ? waits.due : at.now;
  const hasPlace = waits?.lane === "live" && waits.phase === "waits" && waits.due <= at.now;
  return hasPlace ? input.rank.again(waits.due) : input.rank.first;
}

/** Of the event with the fields, and of the newest one. */
function eventKeysOf(
  waits: Staged | undefined,
  { fields, status }: Wanted,
  { eventKey }: StageInput,
): readonly string[] {
  const before = waits?.eventKeys ?? [];
  const own = eventKey === "" ? [] : [eventKey];
  if (fields !== undefined && fields === waits?.fields) return [...before.slice(0, 1), ...own];
  if (status === waits?.status) return [...own, ...before.slice(-1)];
  return own;
}
