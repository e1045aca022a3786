/** Decides what to say of one record: its fate, in one sentence, and the remedy. Pure. */
import type { BulkPause } from "../state/bulk-changes.ts";
import { NOT_OPENED } from "../state/line.ts";
import { clockTime } from "../status/clock-time.ts";
import { stopsIn } from "../status/stops.ts";
import type { Problem } from "../event/problem.ts";
import { REMEDIES, type DeadReason } from "../sync/dead-letter.ts";
import { heldBecause } from "../sync/record.ts";
import type { FateOfRecord } from "./fates.ts";
import { restFate } from "./rest-fate.ts";
import type { Letter, RecordFacts, SharedFacts, WaitingState } from "./record-facts.ts";

/** A turn that is nearer than this counts as now, ms. */
const NOW_MS = 2000;

export function fateOf(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { fetchFrom, letter, waiting } = facts;
  if (waiting !== undefined && letter !== undefined && waiting.order >= orderOf(letter)) {
    return withOlderLetter(waitingFate(waiting, facts, shared), rejectedFate(letter, facts));
  }
  if (letter !== undefined) return rejectedFate(letter, facts);
  if (waiting !== undefined) return waitingFate(waiting, facts, shared);
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
  const name = shellWord(crmCode ?? id);
  return {
    fate: "rejected",
    answer: `was rejected at ${clockTime(at)}: ${problemsText(reason, problems)}${redriven}${older}`,
    remedy: `${REMEDIES[reason]} crmsync dead show ${name}; crmsync dead redrive ${name} --apply`,
    runbook: "crmsyncdeadletters",
  };
}

function waitingFate(waiting: WaitingState, facts: RecordFacts, shared: SharedFacts): FateOfRecord {
  const { dueAt, heldSince, takenUntil } = waiting;
  const { now } = shared.readings;
  if (heldSince !== undefined) return heldFate(heldSince, waiting, facts);
  if (takenUntil !== undefined) {
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
  if (dueAt !== undefined && dueAt > now) return retryFate(waiting, dueAt);
  return turnFate(waiting, shared);
}

function heldFate(
  since: number,
  { heldFields, heldWhy = "limit", time }: WaitingState,
  facts: RecordFacts,
): FateOfRecord {
  const name = shellWord(facts.crmCode ?? facts.name);
  return {
    fate: "held",
    answer: `its ${heldWhy === "emptied" ? "change" : "termination"} (event of ${clockTime(time)}) is held since ${clockTime(since)}: ${heldBecause(heldWhy, heldFields)}`,
    remedy: `Release it with crmsync held release ${name} --apply, or leave the relation as it is with crmsync held drop ${name} --apply.`,
    runbook: heldWhy === "emptied" ? "crmsyncfieldsemptied" : "crmsyncheldterminations",
  };
}

function pausedFate({ by, reason, since }: BulkPause): FateOfRecord {
  const why = reason === undefined ? "" : ` (${reason})`;
  return {
    fate: "paused",
    answer: `waits because ${by} has paused the lane bulk at ${clockTime(since)}${why}`,
    remedy: "crmsync bulk resume sends it; a live change of the record goes at once.",
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
    remedy: "It is sent by itself when its turn comes; crmsync status shows the quota.",
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

/** Most problems that one sentence names. */
const MOST_PROBLEMS = 3;

/** Fields and rules, such as `birthDate must be a date`; no values. */
function problemsText(
  reason: DeadReason,
  problems: readonly Pick<Problem, "field" | "rule">[],
): string {
  if (problems.length === 0) return reason;
  const named = problems
    .slice(0, MOST_PROBLEMS)
    .map(({ field, rule }) => `${field} ${rule}`.trim());
  const more = problems.length - named.length;
  return `${named.join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
}

/** A name as it is typed in a shell. */
const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-")
    ? text
    : `'${text.replaceAll("'", "'\\''")}'`;
