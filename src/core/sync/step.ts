/**
 * What happened to one record: the steps of its history (src/core/state/history.ts). A step names fields,
 * and never holds their values.
 */
import type { DeadReason } from "./dead-letter.ts";
import type { IgnoreReason } from "./mapped.ts";
import type { FieldChange } from "./marks.ts";
import { type Outcome, problemFields, type RunEnd } from "./outcomes.ts";
import type { CrmEvent } from "../event/crm-event.ts";
import type { Problem } from "../event/problem.ts";

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
  /** Who, in short; absent where an act on many records notes it once, in the audit trail. */
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

type NamedEvent = Pick<CrmEvent, "source" | "id"> & { type: string; time?: string | undefined };

interface About {
  /** The event's own, or that of a record that was merged into it. */
  readonly subject: string;
  readonly warnings?: readonly { readonly field: string; readonly reason: string }[] | undefined;
  /** Of these fields, those in which the service keeps what it has. */
  readonly notUnderstood?: readonly string[];
  readonly redriven?: boolean;
}

export function notedEvent(
  { source, id, type, time }: NamedEvent,
  { subject, warnings = [], notUnderstood = [], redriven = false }: About,
): NotedEvent {
  const isKept = (field: string) => notUnderstood.includes(field);
  return {
    source,
    id,
    type: type.slice(type.lastIndexOf(".") + 1),
    subject,
    time: time === undefined ? undefined : Date.parse(time),
    // Of a history only the first ones are kept.
    warnings: warnings
      .toSorted((a, b) => Number(isKept(b.field)) - Number(isKept(a.field)))
      .map(({ field, reason }) => `${nameOf(field)}:${reason}${isKept(field) ? KEPT : ""}`),
    redriven,
  };
}

/** As `notedEvent`, for something that is no valid event; undefined when it names no record. */
export function notedText(
  value: unknown,
  { redriven = false }: Pick<About, "redriven">,
): NotedEvent | undefined {
  const given = (typeof value === "object" && value !== null ? value : {}) as Partial<
    Record<"source" | "id" | "type" | "time" | "subject", unknown>
  >;
  const text = (part: unknown): string => (typeof part === "string" ? part.toWellFormed() : "");
  const [source, id, type, subject] = [given.source, given.id, given.type, given.subject].map(text);
  if (!subject) return undefined;
  return notedEvent(
    { source: source ?? "", id: id ?? "", type: type ?? "" },
    {
      subject,
      redriven,
    },
  );
}

export const notedProblems = (reason: DeadReason, problems: readonly Problem[]): NotedProblems => ({
  reason,
  fields: problemFields(problems).filter((field) => field !== ""),
  // The service's words, and those of a mapping's own code, may quote a value.
  rule: reason === "invalid" ? problems[0]?.rule : undefined,
});

/** @param request undefined when the run has sent none. */
export function runStep(
  request: NotedRequest | undefined,
  { change, outcome, problems = [], reason }: Omit<RunEnd, "finished">,
): RunStep {
  const isDead = outcome === "rejected" && reason !== undefined;
  return {
    kind: "run",
    request,
    outcome,
    reason,
    problems: isDead ? notedProblems(reason as DeadReason, problems) : undefined,
    ...(change && { change }),
  };
}

/** The name of a field, or `other`: a mapping may name a field in any way. */
const nameOf = (field: string): string =>
  problemFields([{ field, rule: "", kind: "" }])[0] || "other";
