/**
 * What happened to one record: the steps of its history (src/state/history.ts). A step names fields,
 * and never holds their values.
 */
import type { DeadReason } from "./dead-letter.ts";
import type { IgnoreReason } from "./mapped.ts";
import type { FieldChange } from "./marks.ts";
import type { Outcome } from "./outcomes.ts";

/** What intake has done with one record of an event. */
export const EVENT_RESULTS = [
  "staged",
  "held",
  "unchanged",
  "nothing_to_terminate",
  "superseded",
  "rejected",
  "ignored",
  "fetching",
  // The CRM does not have the record that was to be fetched: the event has ended.
  "missing",
] as const;
export type EventResult = (typeof EVENT_RESULTS)[number];

/** Ends the warning of a field in which the service keeps what it has, because ours was not understood. */
export const KEPT = ":kept";

/** An event, as the history of its record names it. */
export interface NotedEvent {
  readonly source: string;
  readonly id: string;
  /** The last part of its type: `updated`. */
  readonly type: string;
  readonly subject: string;
  /** When the change happened in the CRM, ms; undefined when the event does not say it. */
  readonly time: number | undefined;
  /** `<field>:<reason>` of what the mapping left out or changed; with `:kept` where the service keeps what it has. */
  readonly warnings: readonly string[];
  /** The event of a dead letter, accepted again. */
  readonly redriven: boolean;
}

/** Why a change became a dead letter. */
export interface NotedProblems {
  readonly reason: DeadReason;
  readonly fields: readonly string[];
  /** The first rule that was broken; only of crmsync's own rules, which quote no values. */
  readonly rule: string | undefined;
}

export interface EventStep {
  readonly kind: "event";
  readonly event: NotedEvent;
  readonly result: EventResult;
  /** It replaced an older state that had not been sent. */
  readonly coalesced: boolean;
  /** Another event with the same source and id, and other content, came before. */
  readonly reused?: boolean;
  /** Of `ignored`, and of a record that left its rule. */
  readonly ignored: IgnoreReason | undefined;
  /** With it, points to the rules that have decided it (mapping/whens.ts). */
  readonly whens?: string | undefined;
  /** Of `rejected`. */
  readonly problems: NotedProblems | undefined;
}

/** A request as it was sent to the service. */
export interface NotedRequest {
  readonly method: string;
  /** Undefined when no response came. */
  readonly status: number | undefined;
  readonly durationMs: number;
}

/** One run of a record that was given back: with a request, or decided without one. */
export interface RunStep {
  readonly kind: "run";
  /** Undefined: no request was sent. */
  readonly request: NotedRequest | undefined;
  /** Undefined: the reply was healed, or must be confirmed; the record runs again. */
  readonly outcome: Outcome | undefined;
  /** Finer than the outcome. */
  readonly reason: string | undefined;
  /** Of `rejected`. */
  readonly problems: NotedProblems | undefined;
  /** Of `updated`, where it is known. */
  readonly change?: FieldChange;
}

/** A change that became a dead letter outside of these: it could not be fetched, or not be read. */
export interface DeadStep {
  readonly kind: "dead";
  readonly problems: NotedProblems;
}

/** What a person did by a command or on the page. */
export interface ActStep {
  readonly kind: "act";
  /** As the audit trail names it: `dead.redrive`. */
  readonly act: string;
  /** Who, in short; absent: of an older release. */
  readonly by?: string | undefined;
  /** The second person, where one was needed. */
  readonly approvedBy?: string | undefined;
}

/** A step that is about to be noted. */
export type NewStep = EventStep | RunStep | DeadStep | ActStep;

export type Step = NewStep & {
  /** When it happened by Redis' clock, ms; of a repeated step, the last time. */
  readonly at: number;
  /** How often in a row. */
  readonly times: number;
};
