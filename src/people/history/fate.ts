/** Decides what to say of one record: its fate, in one sentence, and the remedy. Pure. */
import { crmsync } from "../../base/command.ts";
import type { BulkPause } from "../../core/state/bulk-changes.ts";
import { NOT_OPENED } from "../../core/state/line.ts";
import { clockTime } from "../../operate/status/clock-time.ts";
import { stopsIn, unfinished } from "../../operate/status/stops.ts";
import { REMEDIES } from "../../core/sync/dead-letter.ts";
import { heldBecause } from "../../core/sync/record.ts";
import { timeOfOrder } from "../../core/sync/known.ts";
import type { Letter, RecordFacts, SharedFacts, WaitingState } from "./record-facts.ts";
import { leftOutText, type PresentWhens } from "../../intake/mapping/whens.ts";
import { WARNING_REASONS, type WarningReason } from "../../intake/mapping/mapping.ts";
import type { LedgerRow } from "../../core/sync/ledger-row.ts";
import {
  leadingOf,
  notKnownText,
  problemsText,
  stateOfChange,
  stateOfRow,
} from "../../records/state-of.ts";
import {
  KEPT,
  type DeadStep,
  type EventStep,
  type RunStep,
  type Step,
} from "../../core/sync/step.ts";

/** A turn that is nearer than this counts as now, ms. */
const NOW_MS = 2000;

export function fateOf(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { fetchFrom, letter, waiting } = facts;
  const leading = leadingOf(waiting, letter && { order: orderOf(letter) });
  if (waiting !== undefined && leading === "change") {
    const fate = waitingFate(waiting, facts, shared);
    return letter === undefined ? fate : withOlderLetter(fate, rejectedFate(letter, facts));
  }
  if (letter !== undefined) return rejectedFate(letter, facts);
  if (fetchFrom !== undefined) return fetchingFate(fetchFrom, shared);
  return restFate(facts, shared);
}

const orderOf = ({ newest, order = "" }: Pick<Letter, "newest" | "order">): string =>
  newest?.order ?? order;

/** What waits brings no usable fields: those in the dead letter are the newest. */
const withOlderLetter = (waiting: FateOfRecord, rejected: FateOfRecord): FateOfRecord => ({
  ...waiting,
  answer: `${waiting.answer}; its fields are in a dead letter: the record ${rejected.answer}`,
  remedy: [waiting.remedy, rejected.remedy].filter((text) => text !== undefined).join(" "),
});

function rejectedFate(
  { at, crmCode, id, newest, order, problems, reason }: Letter,
  facts: RecordFacts,
): FateOfRecord {
  const { steps, waiting } = facts;
  const act = steps.findLast((step) => step.kind === "act" && step.act === "dead.redrive");
  const isAccepted = (since: number) =>
    steps.some((step) => step.kind === "event" && step.event.redriven && step.at >= since);
  const redriven =
    act !== undefined && act.at > at && !isAccepted(act.at)
      ? `; redriven at ${clockTime(act.at)}, and not accepted again yet`
      : "";
  const isOlder = waiting !== undefined && waiting.order < orderOf({ newest, order });
  const older = !isOlder
    ? ""
    : waiting.heldSince === undefined
      ? "; an older change of it waits to be sent"
      : "; an older change of it is held for a person: a newer event that is valid replaces it";
  // Of an event that told no crmCode, the letter has a name of its own.
  const name = crmCode ?? id;
  return {
    fate: "rejected",
    answer: `was rejected at ${clockTime(at)}: ${problemsText(reason, problems)}${redriven}${older}`,
    remedy: `${REMEDIES[reason]} ${crmsync`dead show ${name}`}; ${crmsync`dead redrive ${name} --apply`}`,
    runbook: "crmsyncdeadletters",
  };
}

function waitingFate(waiting: WaitingState, facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { dueAt, heldSince, takenUntil } = waiting;
  const state = stateOfChange(waiting, shared.readings.now);
  if (state === "held" && heldSince !== undefined) return heldFate(heldSince, waiting, facts);
  if (state === "sending" && takenUntil !== undefined) {
    return {
      fate: "sending",
      answer: `is being sent now: the change of ${clockTime(waiting.time)} (if its process has died, it is tried again from ${clockTime(takenUntil)} on)`,
    };
  }
  const [stop] = stopsIn(shared.readings);
  if (stop !== undefined) {
    const { runbook, says } = stop;
    return {
      fate: "stopped",
      answer: `waits because sending is stopped: ${says.replace(/\.$/, "")}`,
      remedy: stop.endsByItself
        ? "It is sent once that has passed."
        : "It is kept, and sent once that is over: the runbook says how to end it.",
      runbook,
    };
  }
  const { bulkPause } = shared.readings;
  if (waiting.lane === "bulk" && bulkPause !== undefined) return pausedFate(bulkPause);
  if (state === "retrying" && dueAt !== undefined) return retryFate(waiting, dueAt);
  return turnFate(waiting, shared);
}

function heldFate(
  since: number,
  { heldFields, heldWhy = "limit", time }: WaitingState,
  facts: RecordFacts,
): FateOfRecord {
  const name = facts.crmCode ?? facts.name;
  return {
    fate: "held",
    answer: `its ${heldWhy === "emptied" ? "change" : "termination"} (event of ${clockTime(time)}) is held since ${clockTime(since)}: ${heldBecause(heldWhy, heldFields)}`,
    remedy: `Release it with ${crmsync`held release ${name} --apply`}, or leave the relation as it is with ${crmsync`held drop ${name} --apply`}.`,
    runbook: heldWhy === "emptied" ? "crmsyncfieldsemptied" : "crmsyncheldterminations",
  };
}

function pausedFate({ by, reason, since }: BulkPause): FateOfRecord {
  const why = reason === undefined ? "" : ` (${reason})`;
  return {
    fate: "paused",
    answer: `waits because ${by} has paused the lane bulk at ${clockTime(since)}${why}`,
    remedy: `${crmsync`bulk resume`} sends it; a live change of the record goes at once.`,
    runbook: "crmsyncbulkpaused",
  };
}

function retryFate({ failure, tries }: WaitingState, dueAt: number): FateOfRecord {
  const next = `waits for its next try, about ${clockTime(dueAt)}`;
  if (failure?.startsWith(NOT_OPENED) === true) {
    return {
      fate: "waits_for_retry",
      answer: `${next}: ${failure}`,
      remedy:
        "Send the record again, which replaces the change; if a key is named, add it to STATE_KEY.",
      runbook: "the-state-key",
    };
  }
  const why = failure === undefined ? "" : `: ${failure}`;
  const said =
    tries === 0
      ? `its last reply must be confirmed${why}`
      : `${tries === 1 ? "one request" : `${tries} requests`} had no usable reply${why}`;
  return {
    fate: "waits_for_retry",
    answer: `${next}: ${said}`,
    remedy: "It is tried again by itself; if that goes on, see the runbook.",
    runbook: "one-record-is-missing",
  };
}

/** Nothing keeps it back but the quota, and the records before it. */
function turnFate(
  { ahead, lane }: WaitingState,
  { readings: { now, quota } }: SharedFacts,
): FateOfRecord {
  const others = ahead.live + ahead.bulk;
  const live = ahead.live + Number(lane === "live");
  const at = quota.hasSent
    ? quota.drainedAt({ live, bulk: ahead.bulk + Number(lane === "bulk") })
    : undefined;
  const isNow = at !== undefined && at - now <= NOW_MS;
  const when =
    at === undefined ? "" : isNow ? ", and is sent about now" : `, about ${clockTime(at)}`;
  const behind =
    others === 0 ? "before all others" : `behind ${others} ${others === 1 ? "other" : "others"}`;
  const bulk = lane === "bulk" ? ", in the lane bulk" : "";
  return {
    fate: "waits_for_quota",
    answer: `waits for quota${when}, ${behind}${bulk}`,
    remedy: `It is sent by itself when its turn comes; ${crmsync`status`} shows the quota.`,
    runbook: "crmsyncquotaexhausted",
  };
}

function fetchingFate(crm: string, { readings }: SharedFacts): FateOfRecord {
  const failure = readings.fetchFailures.find((one) => one.crm === crm);
  const why = failure === undefined ? "" : `; ${crm} does not return records now (${failure.why})`;
  return {
    fate: "fetching",
    answer: `waits to be fetched from ${crm}, which has only told that it changed${why}`,
    remedy:
      why === ""
        ? "It is fetched by itself."
        : "Check the address and the credentials of the CRM; the fetch is tried again by itself.",
    runbook: "crmsyncrecordsnotfetched",
  };
}

type NotedEventStep = Step & EventStep;

function restFate(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { answer, ...rest } = pastFate(facts, shared);
  return { ...rest, answer: `${answer}${inboxText(shared)}` };
}

/** Only intake can tell which record an event in the inbox is about: any of them may be this one's. */
const unacceptedIn = ({ readings }: SharedFacts): number =>
  unfinished(readings.inboxJobs) + unfinished(readings.fetchJobs);

function inboxText(shared: SharedFacts): string {
  const waiting = unacceptedIn(shared);
  if (waiting === 0) return "";
  return waiting === 1
    ? "; 1 event has come that is not accepted yet, and may be of it"
    : `; ${waiting} events have come that are not accepted yet, and may be of it`;
}

function pastFate(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const last = facts.steps.findLast((step) => step.kind === "event");
  const known = knownOf(facts, shared);
  const dead = facts.steps.findLast((step) => step.kind === "dead");
  if (dead !== undefined && (last === undefined || dead.at >= last.at))
    return deadFate(dead, known);
  const act = facts.steps.findLast(({ kind }) => kind === "act");
  const run = facts.steps.findLast((step) => step.kind === "run");
  // An act is noted before it is done: what was sent after it had not been dropped.
  const isLater = act?.kind === "act" && act.at >= Math.max(last?.at ?? 0, run?.at ?? 0);
  if (isLater && act.act === "bulk.cancel") {
    return droppedFate(`its change was dropped with the others of the lane bulk`, act.at, known);
  }
  if (isLater && act.act === "held.drop") {
    return droppedFate("its held change was dropped by a person", act.at, known);
  }
  if (run?.outcome === "rejected" && run.at >= (last?.at ?? 0)) {
    const droppedAt = isLater && act.act === "dead.drop" ? act.at : undefined;
    return goneFate(`its change was ${rejectedAt(run)}`, droppedAt, known);
  }
  const ended = last && eventFate(last, facts, known, shared.whens);
  if (ended !== undefined) return ended;
  if (facts.row !== undefined || facts.steps.length > 0) return known;
  return neverSeen(facts, shared);
}

/** Its event did not come as far as to a relation. */
const deadFate = (dead: Step & DeadStep, known: FateOfRecord): FateOfRecord => ({
  fate: "rejected",
  answer: `its last event became a dead letter at ${clockTime(dead.at)}: ${rejectedText(dead)}; ${known.answer}`,
  remedy: `${REMEDIES[dead.problems.reason]} ${crmsync`dead list`} has it, until it is redriven, dropped or expires.`,
  runbook: "crmsyncdeadletters",
});

/** What the last event led to, where that is not simply what the service has. */
function eventFate(
  last: NotedEventStep,
  facts: RecordFacts,
  known: FateOfRecord,
  whens: PresentWhens,
): FateOfRecord | undefined {
  const event = `the last event (${whenOf(last)})`;
  const dropped = facts.steps.findLast((step) => step.kind === "act" && step.at >= last.at);
  switch (last.result) {
    case "ignored":
      return {
        fate: "ignored",
        answer: `${event} was ignored: ${ignoredText(last, whens)}; ${known.answer}`,
        remedy: `Nothing, if the record is not meant to be on the service; otherwise correct the record or the mapping, and see what becomes of it with ${crmsync`preview`}.`,
      };
    case "rejected": {
      const at = dropped?.kind === "act" && dropped.act === "dead.drop" ? dropped.at : undefined;
      const rejected = `${event} was ${rejectedAt(last)}`;
      if (at === undefined && hasEndedAfter(last, facts, known)) {
        return {
          ...known,
          answer: `${known.answer}; ${rejected}, but the record has ended after it`,
        };
      }
      return goneFate(rejected, at, known);
    }
    case "unchanged":
      if (known.fate !== "on_service") return undefined;
      return { ...known, fate: "unchanged", answer: `${known.answer}; ${event} changed nothing` };
    case "superseded":
      return {
        ...known,
        fate: "superseded",
        answer: `${known.answer}; ${event} is older than what was known, and was superseded`,
      };
    case "missing":
      return {
        ...known,
        answer: `${event} changed nothing: the CRM says that it has no such record; ${known.answer}`,
        remedy:
          "Nothing, if it was deleted there: a deletion is an event of its own. Otherwise the CRM's credentials may not read it.",
        runbook: "the-crm-has-none-of-the-records",
      };
    case "staged":
    case "held":
    case "nothing_to_terminate":
    case "fetching":
      return undefined;
  }
}

/** A deletion that is newer than the event was carried out: its dead letter has gone with that (run.ts). */
function hasEndedAfter(
  { event: { time = Number.POSITIVE_INFINITY } }: NotedEventStep,
  { row }: RecordFacts,
  { fate }: FateOfRecord,
): boolean {
  const isEnded = fate === "terminated" || fate === "not_on_service";
  return isEnded && settledTime(row) >= time;
}

/** When the newest event that was settled happened in the CRM, ms; NaN: none was settled. */
const settledTime = (row: LedgerRow | undefined): number => timeOfOrder(row?.orders.status ?? "");

const droppedFate = (what: string, at: number, known: FateOfRecord): FateOfRecord => ({
  fate: known.fate,
  answer: `${what} at ${clockTime(at)}; ${known.answer}`,
  remedy: `Its next change, or ${crmsync`reconcile`}, sends it.`,
});

const rejectedAt = (step: NotedEventStep | (Step & RunStep)): string =>
  `rejected at ${clockTime(step.at)}: ${rejectedText(step)}`;

/** It was rejected, and the dead letter is gone. */
const goneFate = (
  rejected: string,
  droppedAt: number | undefined,
  known: FateOfRecord,
): FateOfRecord => {
  const gone =
    droppedAt === undefined
      ? "its dead letter is gone: it has expired, or was dropped"
      : `its dead letter was dropped at ${clockTime(droppedAt)}`;
  return {
    fate: "rejected",
    answer: `${rejected}; ${gone}; ${known.answer}`,
    remedy: "Correct the record in the CRM, or the mapping, and send the record again.",
  };
};

/** What the ledger says. */
function knownOf(
  { crmCode, readAt, row, steps }: RecordFacts,
  { readings }: SharedFacts,
): FateOfRecord {
  if (crmCode === undefined) {
    return { fate: "uncertain", answer: "to which crmCode it leads is not known" };
  }
  const state = stateOfRow(row, readings.warmUp.state === "done");
  if (row === undefined) {
    return state === "absent"
      ? { fate: "not_on_service", answer: "the service does not have it" }
      : {
          fate: "uncertain",
          answer: "whether the service has it is not known: the ledger is cold",
        };
  }
  if (state === "unknown") {
    const { next, why } = notKnownText(readAt);
    return {
      fate: "uncertain",
      answer: `what the service has of it is not known (last proven at ${clockTime(row.provedAt)}): ${why}`,
      remedy: readAt === undefined ? `${next} ${crmsync`reconcile`} compares.` : next,
    };
  }
  if (state === "absent") {
    const last = steps.findLast(({ kind }) => kind === "event" || kind === "run");
    const ended =
      last?.kind === "event" && last.result === "nothing_to_terminate"
        ? `; its deletion (${whenOf(last)}) had nothing to terminate`
        : "";
    const known = `as far as was known at ${clockTime(row.provedAt)}`;
    return { fate: "not_on_service", answer: `the service does not have it (${known})${ended}` };
  }
  return onService(row, steps);
}

/** What was read is there. What was sent is there as far as the service has said so. */
function onService(row: LedgerRow, steps: readonly Step[]): FateOfRecord {
  const last = steps.filter((step) => step.kind === "run").findLast(hasProven);
  const isKnown = last !== undefined && row.provedAt <= last.at + SAME_MS;
  const settled = settledTime(row);
  const isListed = Number.isNaN(settled);
  const isRead = isListed || (isKnown && last.request?.method === "GET");
  const is = isRead
    ? `${row.terminated ? "terminated " : ""}on the service, as read at ${clockTime(row.provedAt)}`
    : isKnown
      ? `${row.terminated ? "terminated" : "sent"} and confirmed by its answer at ${clockTime(last.at)}`
      : `${row.terminated ? "terminated, " : ""}confirmed by the service at ${clockTime(row.provedAt)}`;
  const asOf = isListed
    ? "; no event of it was settled"
    : `, as of the event of ${clockTime(settled)}`;
  const answer = `${is}${asOf}${keptText(row, steps)}`;
  return { fate: row.terminated ? "terminated" : "on_service", answer };
}

/** The clocks of a process and of Redis differ by less, ms. */
const SAME_MS = 1000;

const hasProven = ({ outcome, request }: RunStep): boolean =>
  request !== undefined &&
  (outcome === "created" || outcome === "updated" || outcome === "skipped");

/** Names the fields in which the service keeps what it has. */
function keptText({ partial }: LedgerRow, steps: readonly Step[]): string {
  if (partial === undefined) return "";
  const last = steps.findLast((step) => step.kind === "event" && keptIn(step).length > 0);
  const kept = last?.kind === "event" ? keptIn(last) : [];
  const which = kept.length === 0 ? "a field" : kept.flatMap(({ fields }) => fields).join(", ");
  return `; ${which} kept as the service has it, because the CRM's value was not understood or did not come`;
}

/** Fields of an event in which the service keeps what it has, by the reason. */
export function keptIn({ event }: EventStep): { why: string; fields: readonly string[] }[] {
  const kept = event.warnings.filter((text) => text.endsWith(KEPT)).map((text) => text.split(":"));
  const byReason = Map.groupBy(kept, ([, reason = ""]) => reason);
  return [...byReason].map(([reason, all]) => ({
    why: WARNING_REASONS[reason as WarningReason] ?? reason,
    fields: [...new Set(all.map(([field = ""]) => field))],
  }));
}

/** Neither the present nor the past knows it: say what that means, and no more. */
function neverSeen(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { historySince } = shared;
  if (facts.isErased) {
    return {
      fate: "unknown",
      answer: `all that was known of it was erased`,
      remedy: "Its next newer event is a change like any other.",
    };
  }
  const never =
    historySince === undefined
      ? `nothing is known of it, and no history is kept (HISTORY_DAYS)`
      : `no event of it ever came (since ${clockTime(historySince)}, when its history begins)`;
  return {
    fate: "unknown",
    answer: `${never}; ${knownOf(facts, shared).answer}`,
    remedy:
      unacceptedIn(shared) > 0
        ? `${crmsync`status`} says what keeps these events from being accepted, if anything does. Ask again when it shows none in the inbox or to fetch.`
        : `Check that the CRM sends this record; ${crmsync`status`} shows when each source was heard last.`,
    runbook: "one-record-is-missing",
  };
}

const whenOf = ({ at, event: { time } }: NotedEventStep): string =>
  time === undefined ? `came at ${clockTime(at)}` : `of ${clockTime(time)}`;

export function ignoredText(step: EventStep, present: PresentWhens): string {
  const { ignored: reason, whens } = step;
  const object = objectOf(step);
  if (reason === undefined) return `the mapping leaves it out (object ${object})`;
  return leftOutText({ reason, whens }, object, present);
}

/** Of the CRM, as the event names it. */
export const objectOf = ({ event }: EventStep): string => event.subject.split("/")[0] ?? "";

export function rejectedText({ problems }: Pick<EventStep, "problems">): string {
  if (problems === undefined) return "the reason is not known any more";
  const { fields, reason, rule } = problems;
  if (rule === undefined)
    return [reason, ...(fields.length > 0 ? [fields.join(", ")] : [])].join(": ");
  // The rule is that of the first field.
  const [first = "the event", ...others] = fields;
  return `${reason}: ${first} ${rule}${others.length === 0 ? "" : `; also ${others.join(", ")}`}`;
}

/** The closed set of fates. */
export const FATES = [
  "on_service",
  "unchanged",
  "superseded",
  "terminated",
  "waits_for_quota",
  "waits_for_retry",
  "stopped",
  "paused",
  "sending",
  "held",
  "rejected",
  "ignored",
  "fetching",
  "not_on_service",
  "uncertain",
  "unknown",
] as const;
export type Fate = (typeof FATES)[number];

export interface FateOfRecord {
  readonly fate: Fate;
  /** Half a sentence: the name of the record stands before it. */
  readonly answer: string;
  readonly remedy?: string | undefined;
  /** Section of docs/runbook.md. */
  readonly runbook?: string | undefined;
}
