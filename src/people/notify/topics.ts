/**
 * Which findings are notified, and what is said when one has gone: the one table of notifications.
 * What stops all changes is always notified. Pure.
 */
import { crmsync } from "../../base/command.ts";
import type { Finding } from "../../operate/status/finding.ts";
import { endText } from "../../operate/status/approval-text.ts";
import { silentAfter } from "../../operate/status/senders.ts";
import type { Readings } from "../../operate/status/readings.ts";
import type { Reconciliation } from "../../core/state/reconciliations.ts";

/** What is remembered of one topic; times in ms. */
interface Followed {
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

interface Now {
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

/** A finding as notifications follow it, from its beginning to its end. */
export interface Topic {
  /** Section of the runbook, and what the finding is about where there may be several. */
  readonly key: string;
  readonly severity: Finding["severity"];
  readonly says: string;
  readonly runbook: string;
  /** How long it must last before it is notified, in hour windows of the quota. */
  readonly lastsHours: number;
}

interface Row {
  readonly ends?: string | ((about: string, readings: Readings) => string);
  readonly lastsHours?: number;
  /** Only what stops all changes; other findings of the section are not notified. */
  readonly isStop?: true;
  readonly holds?: (readings: Readings, fromDeadLetters: number) => boolean;
}

/** 30 s, a minute, five minutes, a day of hour windows of their usual length. */
const SHORT = 1 / 120;
const MINUTE = 1 / 60;
const LONG = 1 / 12;
const DAY = 24;

/** By section of the runbook. A finding of another section is not notified, unless it is a stop. */
const ROWS: Readonly<Record<string, Row>> = {
  crmsynctokendenied: { ends: "The service accepts the token again." },
  crmsyncaddressdenied: { ends: "The service accepts our address again." },
  crmsyncserviceunavailable: {
    ends: (_about, { outage }) =>
      outage === undefined
        ? "The service gives usable replies again."
        : "No change is tried now; whether the service gives usable replies, the next one shows.",
  },
  // A pause of seconds is usual where another program uses the token too.
  crmsyncthrottled: { ends: "The service lets us send again.", lastsHours: LONG },
  "the-ledger-is-cold-or-being-warmed": {
    ends: (_about, { warmUp }) =>
      warmUp.state === "cold"
        ? "The service could not be listed: changes are sent with a cold ledger."
        : "The ledger is warm, and changes are sent.",
    lastsHours: LONG,
    isStop: true,
  },
  crmsyncqueuepaused: { ends: "The queues are no longer paused or limited." },
  // Never: the process that looks is running, even if a Redis that is just back has no heartbeat of it yet.
  crmsyncdown: { holds: () => false },
  crmsyncrolemissing: { ends: "Each role has a running process again." },
  crmsynctenantunknown: { ends: "The token is known to be of the ledger's tenant." },
  crmsyncauditfailed: { ends: "The audit trail is written again.", lastsHours: MINUTE },
  crmsyncredisnearlyfull: { ends: "Redis has room again." },
  crmsyncredisrejectswrites: { ends: "Redis accepts writes again." },
  crmsyncredisnotdurable: { ends: "Redis keeps what it has accepted again.", lastsHours: MINUTE },
  crmsyncredissavesfailing: { ends: "Redis saves its data again.", lastsHours: MINUTE },
  "the-ledger-and-the-service-disagree": {},
  crmsyncchangesrejected: {
    ends: "The share of rejected changes is below a fifth again, or nothing was checked for an hour.",
  },
  crmsyncdeadletters: {
    holds: ({ deadLetters }, fromDeadLetters) => deadLetters >= fromDeadLetters,
    ends: (_about, { deadLetters }) => `${deadLetters} dead letters are left.`,
  },
  crmsyncdeadlettersexpiring: { ends: "No dead letter is about to be deleted." },
  crmsyncfieldsemptied: { ends: "No field is emptied unusually often any more." },
  crmsyncpulloverdue: { ends: (crm) => `${crm} tells its changes again.`, lastsHours: 0.5 },
  crmsyncheldterminations: { ends: "No change is held any more." },
  "an-act-waits-for-approval": {
    ends: (id, { approvals }) => {
      const one = approvals.find((each) => each.id === id);
      return one === undefined ? "It has ended." : `Approval ${id} ${endText(one)}.`;
    },
    lastsHours: 0,
  },
  "the-mapping-waits-for-approval": {
    ends: "The mapping was approved, or no process has it any more.",
    lastsHours: 0,
  },
  crmsynctokenold: { ends: "The service token is younger than 80 days again." },
  crmsyncchangeslost: {
    ends: "A comparison has run since changes were lost, or a week has passed.",
  },
  crmsyncsourcesilent: {
    ends: (about, readings) =>
      about in readings.sources && about in silentAfter(readings)
        ? `${about} sends events again.`
        : `${about} is not watched any more.`,
  },
  crmsyncrecordsnotfetched: {
    ends: `No record is requested again any more: the CRM returns them, or they were given up (${crmsync`dead list --reason not_fetched`}).`,
    lastsHours: LONG,
  },
  "the-crm-has-none-of-the-records": {
    ends: "The CRM has returned a record, or no such change has come for an hour.",
  },
  crmsyncsendererrors: { ends: "No request of a sender was refused in the last hour." },
  crmsyncdrift: {
    ends: "No relation differs from the CRM any more, as far as the last comparison and its plan tell.",
    lastsHours: DAY,
  },
  crmsyncreconcilefailed: {
    ends: "No failed export waits for a person any more.",
    lastsHours: LONG,
  },
  crmsyncreconcileoverdue: {
    ends: "No scheduled reconciliation is late, failed or stopped any more.",
  },
  "the-lists-for-owners-are-not-sent": {
    ends: "What owners must correct was sent, or is not due.",
  },
  crmsyncreconcileblocked: { ends: "Exports are compared again.", lastsHours: LONG },
  crmsyncbulkpaused: { ends: "The lane bulk goes on.", lastsHours: 4 },
  crmsyncchangestuck: { ends: "No change is reported as stuck any more.", lastsHours: MINUTE },
};

/** A key is at most so long: names of sources come from outside. */
const MOST_CHARACTERS = 150;

/**
 * The findings that are notified, each under its key.
 * @param fromDeadLetters dead letters are notified when there are so many
 */
export function topicsIn(
  findings: readonly Finding[],
  readings: Readings,
  fromDeadLetters: number,
): Topic[] {
  const topics = findings.flatMap(({ severity, says, runbook, about }): Topic[] => {
    const [, section = ""] = runbook.split("#");
    const row = ROWS[section];
    const isStop = severity === "stopped";
    if (!isStop && (row === undefined || row.isStop)) return [];
    if (row?.holds?.(readings, fromDeadLetters) === false) return [];
    const key = about === undefined ? section : `${section} ${about.slice(0, MOST_CHARACTERS)}`;
    return [{ key, severity, says, runbook, lastsHours: row?.lastsHours ?? SHORT }];
  });
  // The first one of a key is the most pressing.
  return [...new Map(topics.toReversed().map((topic) => [topic.key, topic])).values()].toReversed();
}

/** What is said when the finding of a key has gone; undefined: nothing. */
export function endOf(key: string, readings: Readings): string | undefined {
  const [section = "", ...about] = key.split(" ");
  const row = ROWS[section];
  if (row === undefined) return "It has ended.";
  return typeof row.ends === "function" ? row.ends(about.join(" "), readings) : row.ends;
}
