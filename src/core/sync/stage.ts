/**
 * Stages the newest state of a record: each of its two registers takes what is newer than itself. What the
 * ledger proves to need no request is settled here, also while the quota is exhausted. Pure.
 */
import { agreesWithRow } from "./fingerprint.ts";
import type { Lane } from "../event/lane.ts";
import type { Variant } from "../service-spec/business-relation.ts";
import type { Keeps } from "./keeps.ts";
import { NO_ORDERS, type LedgerRow, type Orders, type Pace, type Without } from "./ledger-row.ts";
import { letterAfter } from "./letter.ts";
import {
  busyUntil,
  isPending,
  isSent,
  isSuperseded,
  later,
  newestOrders,
  ordersOf,
  provenOf,
  waitingIn,
  writerAfter,
} from "./known.ts";
import type { WantedStatus } from "./mapped.ts";
import type { Change, FieldsRegister, KnownRecord, Now, StatusRegister } from "./record.ts";
import type { EventStep } from "./step.ts";

/** What an event, or a comparison, wants of one relation. */
export interface StateToStage {
  readonly crmCode: string;
  /** Identity of the event; "" when this is not the last state that the event leads to. */
  readonly eventKey: string;
  /** Hash of what the event says; undefined where none is remembered. */
  readonly content?: string;
  /** A pull has read the record: what it says again is news once another event has said something else. */
  readonly isRead?: boolean | undefined;
  readonly order: string;
  /** Serialised payload; undefined when the event brought no record. */
  readonly payload: string | undefined;
  readonly fingerprint: string | undefined;
  /** Fields that the CRM has and that were not understood: the service keeps what it has there. */
  readonly notUnderstood?: readonly string[] | undefined;
  readonly without?: Without | undefined;
  readonly variant: Variant | undefined;
  readonly status: WantedStatus;
  readonly lane: Lane;
  /** When the change happened in the CRM, ms. */
  readonly time: number;
  /** The event, serialised; kept in case it becomes a dead letter. */
  readonly event: string;
  /** Order of the event that `payload` and `event` are from, when `order` is that of a later one (redrive). */
  readonly fieldsOrder?: string | undefined;
  /** The event brought a record, of which there is no payload: as a dead letter, it tells the most. */
  readonly hasUnusedRecord?: boolean;
  /** The mapping ignores the record by now: the CRM still has it, so that a list did not show its relation is enough. */
  readonly leaves?: boolean;
  /** Names the record of the CRM (a hash); undefined for what is about the relation itself. */
  readonly writer?: string | undefined;
  /** Of the record in the CRM, by the mapping. */
  readonly owner?: string | undefined;
  /** The kept fields of the mapping; written where Redis does not know any. */
  readonly keeps?: Keeps | undefined;
  /** The span in which it is staged, as it is carried on; absent without tracing. */
  readonly trace?: string | undefined;
  /** What the record's history says of the event; absent for a state that no event brought. */
  readonly noted?: Pick<EventStep, "event" | "ignored" | "whens"> | undefined;
}

export interface StageResult {
  /** `held`: a termination that is held for a person, or replaced one that is. */
  readonly result:
    | "staged"
    | "held"
    | "unchanged"
    | "nothing_to_terminate"
    | "superseded"
    | "duplicate";
  /** It replaced an older state that had not been sent. */
  readonly coalesced: boolean;
  /** Another event with the same source and id, and other content, came before. */
  readonly reused?: boolean;
  /** Of a superseded event: it says something else than what is known. */
  readonly differs?: boolean;
}

/** What is staged, with its texts sealed, and what the order of service says (rank.ts). */
export interface StageInput extends Omit<StateToStage, "keeps" | "noted" | "owner"> {
  /** Sealed. */
  readonly about?: string | undefined;
  /** Where a live record stands that begins to wait, and one that waits at this rank and has changed again. */
  readonly rank: { readonly first: number; again(rank: number): number };
  /** What the change teaches of how often the record changes; undefined: nothing. */
  readonly pace: Pace | undefined;
}

export interface Made extends StageResult {
  readonly result: Exclude<StageResult["result"], "duplicate">;
  readonly record: KnownRecord;
}

export function stage(known: KnownRecord, input: StageInput, at: Now): Made {
  const newest = newestOrders(known);
  const own = ownOrders(input);
  const takesFields = input.payload !== undefined && own.fields >= newest.fields;
  const takesStatus = input.order >= newest.status;
  const isRepeated = input.order === newest.status && input.payload !== undefined;
  if (!takesFields && (!takesStatus || isRepeated)) {
    const staged = takenAlong(known, input, own.fields);
    const differs = saysOther(known, input, newest);
    return { record: { ...known, staged }, result: "superseded", coalesced: false, differs };
  }
  const waiting = waitingIn(known.staged);
  const register = statusAfter(known, input, { takesFields, takesStatus, newest });
  const isWhole = takesFields && register.order === input.order;
  const fields = takesFields
    ? fieldsOf(input, own.fields, waiting?.fields?.writer, isWhole)
    : keptFields(known, input);
  // None that are older may follow fields that turned out not to be usable.
  const unusable = fields === undefined && waiting !== undefined ? ordersOf(waiting).fields : "";
  const status = unusable === "" ? register : { ...register, unusable };
  const letter = letterAfter(known.letter, {
    order: status.order,
    is: status.is,
    ownFields: takesFields && own.fields === own.event ? own.fields : "",
    newestFields: newest.fields,
  });
  const wanted = { fields, status };
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

/** @param isWhole the status that waits is that of the same event */
const fieldsOf = (
  input: StageInput,
  order: string,
  writer: string | undefined,
  isWhole: boolean,
): FieldsRegister => ({
  order,
  payload: input.payload ?? "",
  fingerprint: isWhole ? input.fingerprint : undefined,
  notUnderstood: input.notUnderstood?.length ? input.notUnderstood : undefined,
  without: input.without,
  variant: input.variant,
  event: input.event,
  writer: writerAfter(writer, input.writer),
  key: keyOf(input),
});

/**
 * The fields that wait stay, and those that an earlier request may still overwrite: the service might be read before that.
 * But not with a redriven event whose fields are newer and not usable.
 */
function keptFields(
  { row, staged }: KnownRecord,
  { fieldsOrder, hasUnusedRecord }: StageInput,
): FieldsRegister | undefined {
  const isOpen = waitingIn(staged) !== undefined || row?.uncertain === true;
  const isRedriven = hasUnusedRecord === true && fieldsOrder !== undefined;
  if (staged?.fields === undefined || !isOpen || isRedriven) return undefined;
  // Of the fields with another status, nothing is known.
  return { ...staged.fields, fingerprint: undefined };
}

const keptOnly = (read: Change["read"]): Change["read"] => {
  if (read?.kept === undefined) return undefined;
  const { found: _, ...kept } = read;
  return kept;
};

/** Only bulk changes are cancelled. */
const keyOf = ({ eventKey, lane }: StageInput): string | undefined =>
  lane === "bulk" && eventKey !== "" ? eventKey : undefined;

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
      key: keyOf(input),
    };
  }
  // The dead letter is of a newer event, and that one decides the status.
  const known = takesStatus ? order : newest.status;
  if (letter !== undefined && letter.is !== "mapped" && known < letter.order) {
    return { order: letter.order, is: letter.is, key: keyOf(input) };
  }
  if (takesStatus) return { order, is, key: keyOf(input) };
  // The newest event brought no record: this event's fields are the newest, its status is not.
  return staged?.status.order === newest.status
    ? { ...staged.status, unusable: undefined }
    : { order: newest.status, is: row?.orders.is ?? "mapped" };
}

interface Wanted {
  readonly fields: FieldsRegister | undefined;
  readonly status: StatusRegister;
}
type SettledAs = "unchanged" | "nothing_to_terminate";

/** What the ledger proves to need no request; undefined: a worker must take the state. */
function settledWithout(
  { row, staged }: KnownRecord,
  { fields, status }: Wanted,
  { leaves, takesFields }: { takesFields: boolean; leaves: boolean | undefined },
  { warm }: Now,
): SettledAs | undefined {
  const proven = provenOf(row, warm);
  if (proven.exists === undefined || proven.uncertain || staged?.taken !== undefined) return;
  if (!proven.exists) {
    return status.is === "terminated" && (proven.byList !== true || leaves === true)
      ? "nothing_to_terminate"
      : undefined;
  }
  const isSame = agreesWithRow(fields?.fingerprint, proven);
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
): Made {
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
    record: {
      row: settled,
      staged: staged && stillSent(staged, { fields, status }, at),
      letter: isGone ? undefined : letter,
    },
    result,
    coalesced: isPending(staged),
  };
}

/** What is on the service is read once more all the same. */
const stillSent = (
  staged: Change,
  { fields, status }: Wanted,
  { nowUs }: Now,
): Change | undefined =>
  isSent(staged)
    ? {
        ...staged,
        version: Math.max(nowUs, staged.version + 1),
        fields: fields ?? staged.fields,
        status,
      }
    : undefined;

function stageChange(
  known: KnownRecord,
  { fields, status }: Wanted,
  input: StageInput,
  at: Now,
): Made {
  const { letter, row, staged: before } = known;
  const waits = waitingIn(before);
  const lane: Lane = waits?.lane === "live" ? "live" : input.lane;
  // What a person has approved or holds is a termination only if the state that waits is one.
  const ending =
    status.is === "terminated" && waits?.status.is === "terminated" ? waits : undefined;
  const isApproved = ending?.approved === true;
  const isOther = !isApproved && isOfOther([row?.writer, waits?.fields?.writer], input);
  const isHeld = status.is === "terminated" && (ending?.held !== undefined || isOther);
  const { reads } = waits?.tries ?? {};
  const staged: Change = {
    version: Math.max(at.nowUs, (before?.version ?? 0) + 1),
    lane,
    place: placeOf(waits, lane, input, at),
    due: busyUntil(known, at.now),
    since: waits !== undefined && (waits.held !== undefined) === isHeld ? waits.since : at.now,
    firstTime: waits?.firstTime ?? input.time,
    fields,
    status,
    held: isHeld ? (ending?.held ?? { why: "other_record", at: at.now }) : undefined,
    approved: isApproved || undefined,
    tries: reads === undefined ? undefined : { reads },
    // The service's own fields are of no use for others; its kept ones stay what they are.
    read: fields?.order === waits?.fields?.order ? waits?.read : keptOnly(waits?.read),
    taken: before?.taken && {
      ...before.taken,
      newer: before.taken.newer ?? { time: input.time, since: at.now },
    },
    trace: input.trace,
    about: input.about ?? waits?.about,
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
): Change | undefined {
  const waits = waitingIn(staged);
  if (waits?.lane !== "bulk" || input.lane !== "live") return staged;
  if (isSuperseded({ fields, status: input.order }, row?.orders ?? NO_ORDERS)) return staged;
  return { ...waits, lane: "live", place: input.rank.first };
}

/** Whether a superseded event says something else than what waits or was settled; false where that is not known. */
function saysOther(
  { row, staged }: KnownRecord,
  { fingerprint, payload, status }: StageInput,
  newest: Orders,
): boolean {
  if (payload === undefined) return (status === "terminated") !== (newest.is === "terminated");
  const waits = waitingIn(staged);
  const known = waits === undefined ? row : { fingerprint: waits.fields?.fingerprint };
  return known?.fingerprint !== undefined && !agreesWithRow(fingerprint, known);
}

/** A deletion of one record of the CRM must not end a relation that another one has written. */
const isOfOther = (
  writers: readonly (string | undefined)[],
  { writer }: Pick<StageInput, "writer">,
): boolean => writer !== undefined && writers.some((one) => one !== undefined && one !== writer);

/** A record that waits in its lane keeps its age, whatever becomes of its tries. */
function placeOf(waits: Change | undefined, lane: Lane, input: StageInput, at: Now): number {
  const before = waits?.held === undefined ? waits : undefined;
  if (lane === "bulk") return before?.place ?? at.now;
  return before?.lane === "live" ? input.rank.again(before.place) : input.rank.first;
}
