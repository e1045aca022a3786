/** The newest state of one record while it waits for its turn: what is staged, taken and settled. */
import type { Variant } from "../service-spec/business-relation.ts";
import type { Keeps } from "./keeps.ts";
import type { Lane } from "./lane.ts";
import type { EventStep } from "./step.ts";
import type { EarlierFields, LedgerRow } from "./ledger-row.ts";
import type { WantedStatus } from "./wanted-status.ts";

export interface StateToStage {
  readonly crmCode: string;
  /** Identity of the event; "" when this is not the last state that the event leads to. */
  readonly eventKey: string;
  readonly order: string;
  /** Serialised payload; undefined when the event brought no record. */
  readonly payload: string | undefined;
  readonly fingerprint: string | undefined;
  readonly variant: Variant | undefined;
  readonly status: WantedStatus;
  readonly lane: Lane;
  /** When the change happened in the CRM, ms. */
  readonly time: number;
  /** The event, serialised; kept in case it becomes a dead letter. */
  readonly event: string;
  /** Orders of the events that `payload` and `event` are from, when that is an earlier one; `""`: none. */
  readonly fieldsOrder?: string | undefined;
  readonly eventOrder?: string | undefined;
  /** The event brought a record, of which there is no payload: as a dead letter, it tells the most. */
  readonly hasUnusedRecord?: boolean;
  /** The kept fields of the mapping; written where Redis does not know any. */
  readonly keeps?: Keeps | undefined;
  /** `later`: the caller adds the record's job, and counts the change. By default both are one step with it. */
  readonly job?: "later";
  /** The span in which the record's job is added, as BullMQ carries it; absent without tracing. */
  readonly trace?: string | undefined;
  /** What the record's history says of the event; absent for a state that no event brought. */
  readonly noted?: Pick<EventStep, "event" | "ignored" | "whens"> | undefined;
}

export interface StageResult {
  /** `held`: a termination that replaced a held one, and is held as well. */
  readonly result:
    | "staged"
    | "held"
    | "unchanged"
    | "nothing_to_terminate"
    | "superseded"
    | "duplicate";
  /** It replaced an older state that had not been sent. */
  readonly coalesced: boolean;
  /** Its job waits in the lane bulk, or for the retry of an older state: longer than it should. */
  readonly expedite: boolean;
}

/**
 * What the last reply left open, so that the next run finds it out:
 *   missing   a relation that the ledger knows was answered 404 once
 *   accepted  a success without proof
 *   variant   a termination was rejected, and the service may hold the other variant
 */
export type Doubt = "missing" | "accepted" | "variant";

/** What a record's runs are counted by while its state waits. */
export type RunCount = "tries" | "heals" | "forbidden" | "unconfirmed" | "reads";

/** A state that one worker has taken; no other may take the record until it is settled. */
export interface TakenState {
  readonly crmCode: string;
  /** Identifies the worker that took it. */
  readonly token: string;
  /** Order of the newest event; its status counts. */
  readonly order: string;
  /** Set when that event brought no record. */
  readonly earlierFields: EarlierFields | undefined;
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
  /** How often it ended in `unavailable`, and when that began (ms; undefined when never). */
  readonly tries: number;
  readonly firstTryAt: number | undefined;
  /** How many unexpected replies (409, 404) were healed since it was staged. */
  readonly heals: number;
  /** How often the service answered 403 for this record alone. */
  readonly forbidden: number;
  /** How often a success without proof was not found on the service afterwards. */
  readonly unconfirmed: number;
  readonly doubt: Doubt | undefined;
  /** The kept fields of the mapping. */
  readonly keeps: Keeps;
  /** What the service has in them, serialised: read for this run alone. */
  readonly kept: string | undefined;
  /** Whether an earlier request of this record may still take effect. */
  readonly late: boolean;
  /** The ledger's row before it was taken; undefined when there was none. */
  readonly row: LedgerRow | undefined;
  /** Whether the ledger is warm: without a row, the relation is then not on the service. */
  readonly warm: boolean;
}

/** Whether `event` is the one that brought the fields of the state. */
export const bringsFields = ({
  earlierFields,
  eventOrder,
  order,
}: Pick<TakenState, "earlierFields" | "eventOrder" | "order">): boolean =>
  eventOrder === (earlierFields?.order ?? order);

export type Take =
  | { readonly kind: "taken"; readonly state: TakenState }
  | { readonly kind: "nothing" }
  /** A change waited, and its state is gone from Redis. */
  | { readonly kind: "lost" }
  /** It is a bulk change, and an operator has paused that lane. */
  | { readonly kind: "paused" }
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
  /** Payload that was fetched from the service: it replaces that of this state. */
  readonly payload?: string;
  /** What the service has in the kept fields, serialised: for the next run. */
  readonly kept?: string | undefined;
  /** Counts one more of each. */
  readonly counts?: readonly RunCount[];
  readonly doubt?: Doubt;
  /** The request had no answer: it may take effect at any later time. */
  readonly late?: boolean;
  /** It is a termination beyond the limit: it waits until a person releases it. */
  readonly held?: boolean;
  /** The change has become a dead letter. */
  readonly dead?: boolean;
}

/** What is needed to stage a state once more. */
export type WantedState = Pick<
  StateToStage,
  "order" | "payload" | "variant" | "status" | "event" | "fieldsOrder" | "eventOrder"
>;

/** A proof that one process verifies: an earlier request may have taken effect after it. */
export interface DueProof {
  readonly crmCode: string;
  /** What the service must have. */
  readonly proven: Pick<LedgerRow, "exists" | "fingerprint">;
  /** When it was proven, ms. */
  readonly at: number;
  readonly wanted: WantedState;
}

/** `more`: a newer state waits. `lost`: another worker has taken the record over. */
export type SettleResult = "settled" | "more" | "lost";
