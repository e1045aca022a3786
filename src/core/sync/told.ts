/** What those who can correct a record are told of it (OUTCOME_WEBHOOK): names of fields, and no values. Pure. */
import type { Problem } from "../event/problem.ts";
import { REMEDIES, type DeadLetter, type DeadReason } from "./dead-letter.ts";
import { problemFields, type Outcome } from "./outcomes.ts";
import { HELD_BECAUSE, type HeldWhy, type KnownRecord, type LetterMark } from "./record.ts";

/** One outcome as it waits in Redis. */
export interface Told {
  readonly outcome: "created" | "updated" | "terminated" | "rejected" | "held" | "cleared";
  /** When it happened, ms. */
  readonly at: number;
  /** `About` as JSON, sealed. */
  readonly about?: string | undefined;
  /** Since when the relation is on the service, ms; where crmsync has seen it being created. */
  readonly since?: number | undefined;
  readonly reason?: DeadReason | HeldWhy | undefined;
  /** Of `rejected`, and of an update that is held. */
  readonly problems?: readonly ToldProblem[] | undefined;
  /** When an earlier rejection or hold of the record ended, of which nobody was told yet, ms. */
  readonly clearedAt?: number | undefined;
}

export interface ToldProblem {
  readonly field: string;
  /** Absent where its words may quote a value. */
  readonly rule?: string;
}

/** The record of the CRM. */
export interface About {
  readonly source: string | undefined;
  readonly subject: string;
  readonly owner?: string | undefined;
}

/** Problems that are told of one record. */
const MOST_PROBLEMS = 10;

/** The rules of these are ours: the service's words, and those of a mapping's own code, may quote a value. */
const OWN_RULES: ReadonlySet<DeadReason> = new Set([
  "invalid",
  "variant_changed",
  "nothing_to_restore",
  "contradiction",
]);

export function rejectionOf(letter: Pick<DeadLetter, "at" | "problems" | "reason">): Told {
  const { at, problems, reason } = letter;
  const isOurs = ({ rule }: Problem) => OWN_RULES.has(reason) || rule.startsWith("is required");
  const told = problems.slice(0, MOST_PROBLEMS).map((problem) => {
    const [field = ""] = problemFields([problem]);
    return { field, ...(isOurs(problem) && { rule: problem.rule }) };
  });
  return { outcome: "rejected", at, reason, problems: told };
}

/** What a change of a record begins to hold, and the rejection or hold that it ends. */
export function toldOf(before: KnownRecord, after: KnownRecord, now: number): Told[] {
  const about = after.staged?.about ?? before.letter?.about ?? before.staged?.about;
  const wasHeld = before.staged?.held !== undefined;
  const held = after.staged?.held;
  const problems = held?.fields?.map((field) => ({ field })) ?? [];
  const isCleared = (before.letter && !after.letter) || (wasHeld && !held);
  return [
    ...(held && !wasHeld
      ? [{ outcome: "held", at: now, about, reason: held.why, problems } as const]
      : []),
    ...(isCleared ? [{ outcome: "cleared", at: now, about, since: sinceOf(after) } as const] : []),
  ];
}

/**
 * The outcome of a write that the service has accepted, for OUTCOME_WEBHOOK. The row keeps when the relation was created.
 * @param outcome of the run; undefined: no outcome is sent
 */
export function writtenOf(
  after: KnownRecord,
  before: KnownRecord & { readonly now: number },
  outcome: Outcome | undefined,
): { readonly record: KnownRecord; readonly written?: Told } {
  const { row } = after;
  if (row === undefined || (outcome !== "created" && outcome !== "updated"))
    return { record: after };
  const since = outcome === "created" ? before.now : row.since;
  const isEnded = outcome === "updated" && row.terminated;
  return {
    record: { ...after, row: { ...row, since } },
    written: {
      outcome: isEnded ? "terminated" : outcome,
      at: before.now,
      about: before.staged?.about,
      since,
    },
  };
}

const sinceOf = ({ row }: KnownRecord): number | undefined =>
  row?.exists === true && !row.terminated ? row.since : undefined;

export const clearedBy = ({ about }: LetterMark, now: number): Told => ({
  outcome: "cleared",
  at: now,
  about,
});

/** The latest outcome of a record, and the last end of a rejection or hold: one of them tells both. */
export function merged(told: Told | undefined, cleared: Told | undefined): Told | undefined {
  if (told === undefined || cleared === undefined) return told ?? cleared;
  const isOpen = told.outcome === "rejected" || told.outcome === "held";
  if (isOpen && cleared.at > told.at) return cleared;
  return told.outcome === "rejected" ? told : { ...told, clearedAt: cleared.at };
}

const iso = (at: number): string => new Date(at).toISOString();

/** An outcome as it is sent. */
export function outgoing(crmCode: string | undefined, told: Told, about: About | undefined) {
  const { at, clearedAt, outcome, problems = [], reason, since } = told;
  return {
    outcome,
    at: iso(at),
    crmCode,
    record: about && { source: about.source, subject: about.subject },
    owner: about?.owner,
    since: since && iso(since),
    reason,
    problems: problems.length > 0 ? problems : undefined,
    remedy: reason && remedyOf(reason),
    clearedAt: clearedAt && iso(clearedAt),
  };
}

const remedyOf = (reason: DeadReason | HeldWhy): string =>
  isHeldWhy(reason)
    ? `It waits for an operator of crmsync: ${HELD_BECAUSE[reason]}.`
    : REMEDIES[reason];

const isHeldWhy = (reason: string): reason is HeldWhy => Object.hasOwn(HELD_BECAUSE, reason);
