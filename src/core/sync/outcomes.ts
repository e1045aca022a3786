/** How a change can end, and what can stop all changes. Closed sets: they are labels of metrics. */
import type { FieldChange } from "./marks.ts";
import type { Problem } from "../event/problem.ts";
import { FIELDS_OF } from "../service-spec/business-relation.ts";

/** How one run of a record ended (sync-relation.ts). */
export type Outcome =
  | "created"
  | "updated"
  | "skipped"
  | "rejected"
  | "held"
  | "throttled"
  | "unavailable"
  | "denied";

/** How a change ended for good, as it is counted. `skipped` is split by its reason. */
export const CHANGE_OUTCOMES = [
  "created",
  "updated",
  "unchanged",
  "nothing_to_terminate",
  "coalesced",
  "superseded",
  "duplicate",
  "rejected",
  "ignored",
  "cancelled",
] as const;
export type ChangeOutcome = (typeof CHANGE_OUTCOMES)[number];

/** The two ways in which the service denies access: 401 is about the token, 403 about our address. */
export const DENIAL_CAUSES = ["token", "address"] as const;
export type DenialCause = (typeof DENIAL_CAUSES)[number];

/** Pauses of all sending that a reply of the service causes. */
export const PAUSE_REASONS = [
  "throttled",
  "token_denied",
  "address_denied",
  "unavailable",
] as const;

/** How one run of a record ended. */
export interface RunEnd {
  /** Whether the change has ended; otherwise the record stands in the line again, or waits for a person. */
  readonly finished: boolean;
  /** Absent when the change did not end: the record was healed, is held by another, or is gone. */
  readonly outcome?: Outcome;
  /** Finer than the outcome, for counters and the log. */
  readonly reason?: string;
  readonly problems?: readonly Problem[];
  /** Of `updated`, where it is known. */
  readonly change?: FieldChange | undefined;
}

/** Attributes of an event. */
export const EVENT_FIELDS: readonly string[] =
  "specversion id source type subject time sequence lane data data.record data.merged data.fetch".split(
    " ",
  );

/** The service's fields, and what a mapping may reject beside them. */
export const RECORD_FIELDS: readonly string[] = [
  ...new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company, "object", "when"]),
];

const KNOWN: ReadonlySet<string> = new Set([...EVENT_FIELDS, ...RECORD_FIELDS]);

/** Each field that the problems name, once; "" for the whole. */
export function problemFields(problems: readonly Problem[]): string[] {
  const names = problems.map(({ field }) => field.replace(/\[\d+\]/g, ""));
  return [...new Set(names.map((name) => (name === "" || KNOWN.has(name) ? name : "other")))];
}
