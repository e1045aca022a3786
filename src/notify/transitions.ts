/**
 * When a finding is notified: once when it has begun, and once when it has gone. What comes and goes
 * in between is counted, not notified. Pure; the state is shared by all processes.
 */
import type { Finding } from "../status/finding.ts";
import type { Reconciliation } from "../state/reconciliations.ts";
import type { Topic } from "./topics.ts";

/** What is remembered of one topic; times in ms. */
export interface Followed {
  /** Since when it lasts, or when it began last. */
  readonly since: number;
  /** Since when it is gone; absent while it lasts. */
  readonly goneAt?: number;
  /** Its beginning was notified, and its end was not. */
  readonly isNotified: boolean;
  /** When it was notified last. */
  readonly notifiedAt?: number;
  /** How often it has begun since then. */
  readonly times: number;
  readonly severity: Finding["severity"];
  readonly runbook: string;
}

export interface NotifyState {
  readonly topics: Readonly<Record<string, Followed>>;
  /** When the last reconciliation ended that was notified. */
  readonly reconciledAt?: number;
}

export interface Notice {
  readonly kind: "began" | "ended" | "reconciled";
  readonly topic: string;
  readonly severity: Finding["severity"];
  /** Undefined: the text of its end is to be found. */
  readonly says: string | undefined;
  readonly runbook: string;
  readonly since: number;
  /** When it ended. */
  readonly until?: number;
  /** How often it has begun since it was notified last. */
  readonly times: number;
}

/** A finding must be gone for so long before its end is notified; 30 s, in hour windows. */
const GONE_HOURS = 1 / 120;

/** From one beginning to the next notified one of a topic; 10 minutes, in hour windows. */
const DISTANCE_HOURS = 1 / 6;

export interface Now {
  readonly now: number;
  readonly hourMs: number;
}

/** @returns the next state, and what is to be notified. */
export function transitions(
  before: NotifyState,
  topics: readonly Topic[],
  clock: Now,
): { state: NotifyState; notices: Notice[] } {
  const notices: Notice[] = [];
  const next: Record<string, Followed> = {};
  for (const topic of topics) {
    const [followed, notice] = goesOn(before.topics[topic.key], topic, clock);
    next[topic.key] = followed;
    if (notice !== undefined) notices.push(notice);
  }
  for (const [key, followed] of Object.entries(before.topics)) {
    if (key in next) continue;
    const [left, notice] = isGone(key, followed, clock);
    if (left !== undefined) next[key] = left;
    if (notice !== undefined) notices.push(notice);
  }
  return { state: { ...before, topics: next }, notices };
}

function goesOn(
  known: Followed | undefined,
  { key, severity, says, runbook, lastsHours }: Topic,
  { now, hourMs }: Now,
): [Followed, Notice?] {
  const { goneAt: _, ...last } = known ?? { since: now, times: 1, isNotified: false };
  const isBack = known?.goneAt !== undefined && !known.isNotified;
  const followed: Followed = {
    ...last,
    ...(isBack && { since: now, times: last.times + 1 }),
    severity,
    runbook,
  };
  const { since, times, notifiedAt = Number.NEGATIVE_INFINITY } = followed;
  const isDue = now - since >= lastsHours * hourMs && now - notifiedAt >= DISTANCE_HOURS * hourMs;
  if (followed.isNotified || !isDue) return [followed];
  const notice: Notice = { kind: "began", topic: key, severity, says, runbook, since, times };
  return [{ ...followed, isNotified: true, notifiedAt: now, times: 0 }, notice];
}

function isGone(
  key: string,
  known: Followed,
  { now, hourMs }: Now,
): [Followed | undefined, Notice?] {
  const { goneAt = now, isNotified, notifiedAt = Number.NEGATIVE_INFINITY } = known;
  const { severity, runbook, since, times } = known;
  if (isNotified && now - goneAt >= GONE_HOURS * hourMs) {
    const notice: Notice = {
      kind: "ended",
      topic: key,
      severity,
      says: undefined,
      runbook,
      since,
      until: goneAt,
      times,
    };
    return [{ ...known, goneAt, isNotified: false }, notice];
  }
  // It is remembered for as long as its next beginning must wait.
  const isForgotten = !isNotified && now - notifiedAt >= DISTANCE_HOURS * hourMs;
  return [isForgotten ? undefined : { ...known, goneAt }];
}

/** The end of a comparison is notified once; one from before notifications were set is not. */
export function reconciledSince(
  state: NotifyState,
  last: Reconciliation | undefined,
): { state: NotifyState; isNew: boolean } {
  const { reconciledAt } = state;
  const at = last?.at ?? 0;
  return {
    state: { ...state, reconciledAt: at },
    isNew: reconciledAt !== undefined && at !== 0 && at !== reconciledAt,
  };
}
