/**
 * Everything that is known of one record: the change that waits, the ledger's row, the dead letter. Here are the types;
 * chart.ts has the modes of a change and what leads from one to the next. The rules are in stage.ts, run.ts, person.ts
 * and letter.ts, and the store (src/core/state/record-store.ts) writes what they return.
 */
import type { Lane } from "../event/lane.ts";
import type { Variant } from "../service-spec/business-relation.ts";
import type { DeadReason } from "./dead-letter.ts";
import type { LedgerRow, Without } from "./ledger-row.ts";
import type { WantedStatus } from "./mapped.ts";
import type { MarkedRow } from "./marks.ts";

/** The fields that the record shall have. Texts are sealed while they are in Redis. */
export interface FieldsRegister {
  readonly order: string;
  /** Serialised and sealed. */
  readonly payload: string;
  /** Of the payload with the status that waits; undefined where that is not known. */
  readonly fingerprint?: string | undefined;
  /** Fields that the CRM has and that are not in the payload, or not as it has them: the service keeps its own. */
  readonly notUnderstood?: readonly string[] | undefined;
  readonly without?: Without | undefined;
  readonly variant: Variant | undefined;
  /** The event that brought them, sealed. */
  readonly event: string;
  /** Names the record of the CRM that they are from (a hash). */
  readonly writer: string | undefined;
  /** Of a bulk change: key of the event, which may be sent again once the change was cancelled. */
  readonly key?: string | undefined;
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
  /** Order of fields that waited and turned out not to be usable: none that are older may follow. */
  readonly unusable?: string | undefined;
  /** As of the fields. */
  readonly key?: string | undefined;
}

/** Why a change waits for a person, for people. */
export const HELD_BECAUSE = {
  limit: "more relations were to be terminated than TERMINATE_LIMIT allows",
  other_record: "another record of the CRM wrote this relation",
  emptied: "it empties a field that many changes have emptied lately, more than EMPTY_LIMIT allows",
  differs:
    "to end it, its fields must be sent back, and the service shows others than crmsync has written",
} as const;
export type HeldWhy = keyof typeof HELD_BECAUSE;

export interface Held {
  readonly why: HeldWhy;
  readonly at: number;
  /** Of an update: the fields that it would empty. */
  readonly fields?: readonly string[] | undefined;
}

/** @param fields that it would empty */
export const heldBecause = (why: HeldWhy, fields: readonly string[]): string =>
  fields.length === 0 ? HELD_BECAUSE[why] : `${HELD_BECAUSE[why]} (${fields.join(", ")})`;

/**
 * Why the next run reads the relation before anything else:
 *   accepted  a success without proof
 *   renamed   a success that named the crmCode in another form
 *   missing   one 404, about a relation that may be there
 *   variant   a termination was rejected, and the service may hold the other variant
 *   lagging   a read showed something else than our own answered write has proved
 * and once the change is on the service:
 *   late      an earlier request may have taken effect since
 *   stored    a spot check: an answer alone does not prove that a write was stored
 */
export type ConfirmWhy =
  | "accepted"
  | "renamed"
  | "missing"
  | "variant"
  | "lagging"
  | "late"
  | "stored";

export interface Confirm {
  readonly why: ConfirmWhy;
  /** ms */
  readonly since: number;
  /** Of `accepted`: a request before that one may still take effect, too. */
  readonly isOpen?: boolean;
  /** Of `stored`: what the service had before the write, as far as it is known. */
  readonly before?: MarkedRow | undefined;
}

/** What the runs of a change are counted by while it waits. `failed`: no usable reply. */
export type RunCount =
  | "failed"
  | "heals"
  | "forbidden"
  | "unconfirmed"
  | "reads"
  | "refused"
  | "putOff";

export interface Tries extends Readonly<Partial<Record<RunCount, number>>> {
  /** When the first one failed. */
  readonly firstAt?: number | undefined;
  /** Why the last one failed, as people read it, and since when they do. */
  readonly why?: string | undefined;
  readonly since?: number | undefined;
}

/** The newest change of one record. Times are Redis' time, ms, but for `firstTime`, which is of the CRM. */
export interface Change {
  /** Grows with each state of the record that is staged, and is Redis' time in µs: nothing else has it. */
  readonly version: number;
  readonly lane: Lane;
  /** Where it stands in the line of its lane: by its age (rank.ts). */
  readonly place: number;
  /** It may not be sent before that; undefined: it may. */
  readonly due?: number | undefined;
  /** When the first event arrived that is not on the service. */
  readonly since: number;
  /** When the first change that is not on the service happened in the CRM. */
  readonly firstTime: number;
  readonly fields: FieldsRegister | undefined;
  readonly status: StatusRegister;
  /** It waits for a person. */
  readonly held?: Held | undefined;
  /** A person has approved the termination, or that fields are emptied. */
  readonly approved?: boolean | undefined;
  readonly tries?: Tries | undefined;
  readonly confirm?: Confirm | undefined;
  /** What the service has, sealed, because it is to be sent back: its own fields, or only the kept ones, for one run. */
  readonly read?:
    | { readonly found?: string; readonly kept?: string; readonly keptAt?: number }
    | undefined;
  readonly taken?: Taken | undefined;
  /** The span in which it was staged. */
  readonly trace?: string | undefined;
  /** The CRM record and its owner (`About` in told.ts), sealed, for OUTCOME_WEBHOOK; absent: its outcome is not sent. */
  readonly about?: string | undefined;
}

/** A worker has the record alone. */
export interface Taken {
  readonly by: string;
  /** Of the change that it has; a newer one came since when that is another. */
  readonly version: number;
  readonly until: number;
  /** From before it was taken. */
  readonly row: LedgerRow | undefined;
  /** The first change that came since. */
  readonly newer?: { readonly time: number; readonly since: number } | undefined;
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
  /** As of `Change`. */
  readonly about?: string | undefined;
}

/** Everything that is known of one record; a reducer makes a new one of it. */
export interface KnownRecord {
  readonly row: LedgerRow | undefined;
  readonly staged: Change | undefined;
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
