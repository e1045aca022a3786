/** In which state one record is: the one rule of `crmsync why`, of `crmsync records` and of what follows from it. Pure. */
import type { Problem } from "../core/event/problem.ts";
import type { DeadReason } from "../core/sync/dead-letter.ts";
import type { LedgerRow } from "../core/sync/ledger-row.ts";
import { clockTime } from "../operate/status/clock-time.ts";

/** The closed set of states of a relation; `differing`, by a comparison, is only beside another one. */
export const RELATION_STATES = [
  "on the service",
  "waiting",
  "retrying",
  "held",
  "rejected",
  "ended",
  "foreign",
  "unknown",
  "differing",
] as const;
export type RelationStateName = (typeof RELATION_STATES)[number];

/** What says how a record stands: its change, its dead letter, or else the ledger. Of the first two, the newer one. */
export function leadingOf(
  change: { readonly order: string } | undefined,
  letter: { readonly order: string } | undefined,
): "change" | "letter" | "ledger" {
  if (letter === undefined) return change === undefined ? "ledger" : "change";
  return change !== undefined && change.order >= letter.order ? "change" : "letter";
}

/** Times in ms. */
export interface WaitingChange {
  readonly heldSince: number | undefined;
  /** When it may be sent; undefined: now. */
  readonly dueAt: number | undefined;
  /** Until when a worker has taken it. */
  readonly takenUntil: number | undefined;
}

/** `sending`: a worker has it. */
export function stateOfChange(
  { dueAt = 0, heldSince, takenUntil }: WaitingChange,
  now: number,
): "held" | "sending" | "retrying" | "waiting" {
  if (heldSince !== undefined) return "held";
  if (takenUntil !== undefined) return "sending";
  return dueAt > now ? "retrying" : "waiting";
}

/**
 * What the ledger says of a relation.
 * @param isWarm whether the service was listed: a relation without a row was not in the list.
 */
export function stateOfRow(
  row: LedgerRow | undefined,
  isWarm: boolean,
): "on the service" | "ended" | "absent" | "unknown" {
  if (row === undefined) return isWarm ? "absent" : "unknown";
  if (row.uncertain || row.exists === undefined) return "unknown";
  if (!row.exists) return "absent";
  return row.terminated ? "ended" : "on the service";
}

/**
 * Of a relation whose state is `unknown`.
 * @param readAt when a change that is on the service is read once more, ms
 */
export const notKnownText = (readAt: number | undefined): { why: string; next: string } =>
  readAt === undefined
    ? {
        why: "a request had no answer, its row was forgotten, or a list of the service showed another state",
        next: "Its next change, or a comparison of the whole CRM, asks the service.",
      }
    : {
        why: "it was sent, and a request before that had no answer and may still change it",
        next: `crmsync reads it once more at ${clockTime(readAt)}.`,
      };

/** How the last proof came: `answer` to a write of ours, `read` from the service, or `listed`, before any event of it. */
export function provenBy(row: LedgerRow): "answer" | "read" | "listed" | undefined {
  if (row.provedAt === 0) return undefined;
  if (row.written === true) return "answer";
  return row.byList === true || row.orders.status === "" ? "listed" : "read";
}

/** Most problems that one sentence names. */
const MOST_PROBLEMS = 3;

/** Fields and rules, such as `birthDate must be a date`; no values. */
export function problemsText(
  reason: DeadReason,
  problems: readonly (Pick<Problem, "field"> & { readonly rule?: string })[],
): string {
  if (problems.length === 0) return reason;
  const named = problems
    .slice(0, MOST_PROBLEMS)
    .map(({ field, rule = "" }) => `${field} ${rule}`.trim());
  const more = problems.length - named.length;
  return `${named.join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
}
