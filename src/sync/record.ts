/**
 * What is known of one record while a change of it waits, and how it moves: staged by an event, taken by a
 * worker, settled by the service's reply. The rules are in stage.ts, run.ts, person.ts and letter.ts; the
 * store (src/state/record-store.ts) writes what they return.
 * Here are its types, and what the reducers share.
 */
import { hash } from "node:crypto";
import { splitSubject } from "../event/crm-event.ts";
import {
  NO_ORDERS,
  rowWithoutProof,
  type LedgerRow,
  type Orders,
  type Without,
} from "./ledger-row.ts";
import type { Variant } from "../service-spec/business-relation.ts";
import type { Keeps } from "./keeps.ts";
import type { Lane } from "../event/lane.ts";
import type { DeadReason } from "./dead-letter.ts";
import type { EventStep } from "./step.ts";
import type { WantedStatus } from "./mapped.ts";

/** The fields that the record shall have. Texts are sealed while they are in Redis. */
export interface FieldsRegister {
  readonly order: string;
  /** Serialised and sealed. */
  readonly payload: string;
  /** Fields of it that were not understood; absent: none. */
  readonly notUnderstood?: readonly string[] | undefined;
  readonly without?: Without | undefined;
  readonly variant: Variant | undefined;
  /** The event that brought them, sealed. */
  readonly event: string;
  /** Names the record of the CRM that they are from (a hash). */
  readonly writer: string | undefined;
}

/** The status that the relation shall have. */
export interface StatusRegister {
  readonly order: string;
  readonly is: WantedStatus;
  /** The newest event, sealed; undefined when it is the one that brought the fields, or was settled before. */
  readonly event?: string | undefined;
  /** Its order, when `order` is that of a later event (redrive). */
  readonly eventOrder?: string | undefined;
  /** That event brought a record which could not be used: as a dead letter it tells the most. */
  readonly hasRecord?: boolean | undefined;
}

/** Why a change waits for a person, for people. */
export const HELD_BECAUSE = {
  limit: "more relations were to be terminated than TERMINATE_LIMIT allows",
  other_record: "another record of the CRM wrote this relation",
  emptied: "it empties a field that many changes have emptied lately, more than EMPTY_LIMIT allows",
} as const;
export type HeldWhy = keyof typeof HELD_BECAUSE;

/** @param fields that it would empty */
export const heldBecause = (why: HeldWhy, fields: readonly string[]): string =>
  fields.length === 0 ? HELD_BECAUSE[why] : `${HELD_BECAUSE[why]} (${fields.join(", ")})`;

/** What a record's runs are counted by while its change waits. */
export type RunCount = "tries" | "heals" | "forbidden" | "unconfirmed" | "reads" | "refused";

/** How many of its requests have changed nothing. */
export const triesIn = ({ refused = 0, tries = 0 }: Staged["counts"] = {}): number =>
  tries + refused;

/**
 * What the last reply left open, so that the next run finds it out:
 *   missing   a relation that the ledger knows was answered 404 once
 *   accepted  a success without proof
 *   renamed   a success that named the crmCode in another form
 *   variant   a termination was rejected, and the service may hold the other variant
 *   lagging   a read showed something older than what was proven
 *   rejected  it was rejected while the service rejected everything (breaker.ts)
 */
export type Doubt = "missing" | "accepted" | "renamed" | "variant" | "lagging" | "rejected";

/**
 * The newest change of one record. Times are Redis' time, ms, but for `time` and `firstTime`, which are of the CRM.
 *   waits   it is to be sent: in the line of its lane, at `due`
 *   held    a termination, or an update that empties fields, which a person must release; in no line
 *   proven  it was sent. An earlier request may still take effect, or it is a spot check (without its texts), so the relation
 *           is read once more at `due`
 *   left    it was dropped or given up while a request may still take effect: at `due` the row becomes uncertain
 */
export interface Staged {
  /** Grows with each state of the record that is staged, and is Redis' time in µs: nothing else has it. */
  readonly version: number;
  readonly phase: "waits" | "held" | "proven" | "left";
  readonly lane: Lane;
  /** From when on it may be sent: its place in the line (rank.ts), the end of its hold, or its next try. */
  readonly due: number;
  /** When the first event arrived that is not on the service. */
  readonly since: number;
  /** When the newest change, and the first one that is not on the service, happened in the CRM. */
  readonly time: number;
  readonly firstTime: number;
  readonly fields: FieldsRegister | undefined;
  /** Order of fields that waited and turned out not to be usable: none that are older may follow. */
  readonly unusable?: string | undefined;
  readonly status: StatusRegister;
  /** Of the fields with this status; undefined when that is not known. */
  readonly fingerprint?: string | undefined;
  /** The first change that came after this one was taken. */
  readonly newer?: { readonly time: number; readonly since: number } | undefined;
  /** Of a bulk change: keys of the events that made it, which may be sent again once it was cancelled. */
  readonly eventKeys?: readonly string[] | undefined;
  /** The span in which it was staged. */
  readonly trace?: string | undefined;
  readonly heldWhy?: HeldWhy | undefined;
  readonly heldAt?: number | undefined;
  /** Of an update: the fields that it would empty. */
  readonly heldFields?: readonly string[] | undefined;
  /** A person has approved the termination, or that fields are emptied. */
  readonly approved?: boolean | undefined;
  readonly counts?: Readonly<Partial<Record<RunCount, number>>> | undefined;
  readonly firstTryAt?: number | undefined;
  /** Why its last try failed, and since when its tries do. */
  readonly failure?: { readonly reason: string; readonly since: number } | undefined;
  readonly doubt?: Doubt | undefined;
  /** An earlier request of the record may still take effect. */
  readonly late?: boolean | undefined;
  /** It is proven, and is read once more as a spot check. */
  readonly spotCheck?: boolean | undefined;
  /** What the service has, sealed: read because no event brought fields, or because a termination needs its own. */
  readonly found?: string | undefined;
  /** What the service has in the kept fields, sealed: for the next run alone. */
  readonly kept?: { readonly values: string; readonly at: number } | undefined;
  /** No worker may take the record before that. */
  readonly heldUntil?: number | undefined;
  /** The CRM record and its owner (`About` in told.ts), sealed, for OUTCOME_WEBHOOK; absent: its outcome is not sent. */
  readonly about?: string | undefined;
  /** The worker that has taken it, which version, the row from before, and its place in the line. */
  readonly taken?:
    | {
        readonly by: string;
        readonly version: number;
        readonly row: LedgerRow | undefined;
        readonly place?: number;
      }
    | undefined;
  /** Of `proven`: what the service must have, and when it was proven. */
  readonly proof?: Pick<LedgerRow, "exists" | "fingerprint"> | undefined;
  readonly provedAt?: number | undefined;
}

/** What a dead letter knows of its record's events. */
export interface LetterMark {
  /** Order of the newest event; "": unknown. */
  readonly order: string;
  /** What that event demands: `mapped` when it brought the fields. */
  readonly is: WantedStatus;
  /** Order of the event that the letter holds. */
  readonly event: string;
  /** Order of the newest event that brought fields, which is the one that the letter holds. "": none; undefined: unknown. */
  readonly fields: string | undefined;
  readonly reason: DeadReason;
  /** As of `Staged`. */
  readonly about?: string | undefined;
}

/** Everything that is known of one record; a reducer makes a new one of it. */
export interface KnownRecord {
  readonly row: LedgerRow | undefined;
  readonly staged: Staged | undefined;
  readonly letter: LetterMark | undefined;
}

/** What a reducer needs beside the record. */
export interface Now {
  /** Redis' time, ms. */
  readonly now: number;
  /** Redis' time, µs: the version of a state that is staged now. */
  readonly nowUs: number;
  /** After how long a relation is read once more that a late request may have changed. */
  readonly verifyMs: number;
  /** Whether the service was listed: a relation without a proof was not in the list. */
  readonly warm: boolean;
}

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

/** Whether an event of this source and id came before: with the same content, or with another one. */
export type SeenAs = "same" | "changed" | undefined;

/** A state that one worker has taken; no other may take the record until it is settled. Texts are open. */
export interface TakenState {
  readonly crmCode: string;
  /** Identifies the worker that took it. */
  readonly token: string;
  readonly orders: Orders;
  /** What an event brought, or what was read from the service because none did. */
  readonly payload: string | undefined;
  readonly status: WantedStatus;
  readonly variant: Variant | undefined;
  readonly lane: Lane;
  /** Time of the first event that is not yet proven on the service, ms. */
  readonly firstTime: number;
  /** The event that brought the fields, or the newest one where these are not an event's. */
  readonly event: string;
  /** Order of `event`. */
  readonly eventOrder: string;
  /** The newest event, as far as it is known: it led to this change. */
  readonly newestEvent: string;
  readonly counts: Readonly<Record<RunCount, number>>;
  /** When the first try ended in `unavailable`, ms; undefined when none did. */
  readonly firstTryAt: number | undefined;
  readonly doubt: Doubt | undefined;
  /** Fields that the CRM has and that were not understood: they are kept, too. */
  readonly notUnderstood: readonly string[];
  /** What the ledger says of its fields once it is settled. */
  readonly without?: Without | undefined;
  /** The kept fields of the mapping. */
  readonly keeps: Keeps;
  /** What the service has in them, serialised: read for this run alone. */
  readonly kept: string | undefined;
  /** Whether an earlier request of this record may still take effect. */
  readonly late: boolean;
  /** A person has approved the termination, or that fields are emptied. */
  readonly approved: boolean;
  readonly trace: string | undefined;
  /** Of the record in the CRM. */
  readonly owner?: string | undefined;
  /** The ledger's row before it was taken; what a list has shown when there was none. */
  readonly row: LedgerRow;
}

/** Whether `event` is the one that brought the fields of the state. */
export const bringsFields = ({
  eventOrder,
  orders,
}: Pick<TakenState, "eventOrder" | "orders">): boolean => eventOrder === orders.fields;

export type Take =
  | { readonly kind: "taken"; readonly state: TakenState }
  | { readonly kind: "nothing" }
  /** A change waited, and its state is gone from Redis. */
  | { readonly kind: "lost" }
  /** Another worker holds it until then, ms. */
  | { readonly kind: "busy"; readonly until: number };

/** How a worker gives a taken state back. */
export interface Settlement {
  /** The ledger's new row; `before`: as it was; `uncertain`: unknown until the next reply. */
  readonly row: LedgerRow | "before" | "uncertain";
  /** Whether this state is finished: sent, or given up. */
  readonly finished: boolean;
  /** For how long no worker may take the record, because a request may still arrive, ms. */
  readonly holdMs?: number;
  /** When it is tried again, ms; undefined: at once. */
  readonly retryAt?: number | undefined;
  /** What the service has, serialised, because no event brought fields. */
  readonly payload?: string;
  /** What the service has in the kept fields, serialised: for the next run. */
  readonly kept?: string | undefined;
  /** Counts one more of each. */
  readonly counts?: readonly RunCount[];
  readonly doubt?: Doubt;
  /** Why the try failed, as people read it. */
  readonly failure?: string;
  /** The request had no answer, or its answer is to be verified: it may take effect at any later time. */
  readonly late?: boolean;
  /** It waits until a person releases it. */
  readonly held?: HeldWhy;
  /** Of an update that is held: the fields that it would empty. */
  readonly heldFields?: readonly string[];
  /** It was answered, and is read once more all the same: an answer alone does not prove that a change was stored. */
  readonly spotCheck?: boolean;
  /** The change has become a dead letter. */
  readonly dead?: boolean;
}

/** `more`: a newer state waits. `lost`: another worker has taken the record over. */
export type SettleResult = "settled" | "more" | "lost";

/** After this long a relation is read once more when an earlier request may have taken effect since, ms. */
export const VERIFY_AFTER_MS = 300_000;

export const ordersOf = ({
  fields,
  status,
  unusable = "",
}: Pick<Staged, "fields" | "status" | "unusable">): Orders => ({
  fields: fields?.order ?? unusable,
  status: status.order,
  is: status.is,
});

/** The newest of what waits and of what was settled, register by register. */
export function newestOrders({ row, staged }: Pick<KnownRecord, "row" | "staged">): Orders {
  const settled = row?.orders ?? NO_ORDERS;
  if (staged === undefined || staged.phase === "left") return settled;
  const waiting = ordersOf(staged);
  const status = waiting.status >= settled.status ? waiting : settled;
  return { ...status, fields: later(waiting.fields, settled.fields) };
}

export const later = (a: string, b: string): string => (a > b ? a : b);

/** Whether the newest record that an event brought is one that could not be used: as a dead letter it tells the most. */
export const hasUnusedRecord = ({ fields, status }: Pick<Staged, "fields" | "status">): boolean =>
  status.hasRecord === true && (status.eventOrder ?? status.order) > (fields?.order ?? "");

/** What is proven of the relation, by its row or by the list that did not show it. */
export function provenOf(row: LedgerRow | undefined, warm: boolean): LedgerRow {
  if (row === undefined) return rowWithoutProof(warm);
  if (row.exists !== undefined || row.uncertain || !warm) return row;
  return { ...row, exists: false, byList: true };
}

/** By what it is decided what would become of a change. */
export interface ProvenRecord {
  readonly row: LedgerRow;
  /** Of what waits and what was settled. */
  readonly newest: Orders;
}

export const provenIn = (
  known: Pick<KnownRecord, "row" | "staged"> & { readonly warm: boolean },
): ProvenRecord => ({ row: provenOf(known.row, known.warm), newest: newestOrders(known) });

/** Names a record of the CRM, and does not tell it. A CRM may write the name of an object in several ways. */
export function writerOf(subject: string): string {
  const { object, recordId } = splitSubject(subject);
  return hash("sha256", `${object.toLowerCase()}/${recordId}`, "base64url").slice(0, 16);
}

/** Records of the CRM that share a relation: which of them may end it, only a person knows. */
const SEVERAL = "several";

/** Which record of the CRM has written a relation, once this one has, too. */
export const writerAfter = (
  before: string | undefined,
  own: string | undefined,
): string | undefined =>
  before === undefined || own === undefined || before === own ? (own ?? before) : SEVERAL;

/** When the event of an order happened, ms; NaN for a text that is none. */
export const timeOfOrder = (order: string): number => Date.parse(order.split("\t")[0] ?? "");

/** Whether an event would be superseded: `fields` "" when it brings none. */
export const isSuperseded = (event: Pick<Orders, "fields" | "status">, newest: Orders): boolean =>
  event.fields === "" ? event.status < newest.status : event.fields < newest.fields;

/** Whether a change waits that no worker has taken. */
export const isPending = (staged: Staged | undefined): staged is Staged =>
  staged !== undefined &&
  (staged.phase === "waits" || staged.phase === "held") &&
  staged.version !== staged.taken?.version;

/** The change that waits to be sent, or for a person; undefined: none does. */
export const waitingIn = (staged: Staged | undefined): Staged | undefined =>
  staged?.phase === "waits" || staged?.phase === "held" ? staged : undefined;

/** Until when no worker may take the record, ms; undefined when one may. */
export const busyUntil = ({ heldUntil }: Staged, now: number): number | undefined =>
  heldUntil !== undefined && heldUntil > now ? heldUntil : undefined;

/**
 * What stays of a state that is dropped: that a request may still arrive, and until when no worker may take the
 * record. Undefined: nothing.
 */
export function leftOf(staged: Staged, { now, verifyMs }: Now): Staged | undefined {
  const isLate = staged.late === true || staged.taken !== undefined;
  const heldUntil = busyUntil(staged, now);
  if (!isLate && heldUntil === undefined) return undefined;
  return {
    version: staged.version,
    phase: "left",
    lane: staged.lane,
    due: Math.max(isLate ? now + verifyMs : now, heldUntil ?? 0),
    since: staged.since,
    time: staged.time,
    firstTime: staged.firstTime,
    fields: undefined,
    status: { order: "", is: "mapped" },
    ...(isLate && { late: true }),
    heldUntil,
  };
}
