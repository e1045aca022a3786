/** What to say of a record of which nothing waits and nothing is rejected: the ledger and the past. Pure. */
import { leftOutText, type PresentWhens } from "../mapping/whens.ts";
import { WARNING_REASONS, type WarningReason } from "../mapping/mapping.ts";
import { timeOfOrder } from "../sync/record.ts";
import { unfinished } from "../status/backlog.ts";
import { clockTime } from "../status/clock-time.ts";
import { REMEDIES } from "../sync/dead-letter.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import { KEPT, type DeadStep, type EventStep, type RunStep, type Step } from "../sync/step.ts";
import type { FateOfRecord } from "./fates.ts";
import type { RecordFacts, SharedFacts } from "./record-facts.ts";

type NotedEventStep = Step & EventStep;

export function restFate(facts: RecordFacts, shared: SharedFacts): FateOfRecord {
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
    return droppedFate("its change was dropped by crmsync bulk cancel", act.at, known);
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
  remedy: `${REMEDIES[dead.problems.reason]} crmsync dead list has it, until it is redriven, dropped or expires.`,
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
        remedy:
          "Nothing, if the record is not meant to be on the service; otherwise correct the record or the mapping, and see what becomes of it with crmsync preview.",
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
  remedy: "Its next change, or crmsync reconcile, sends it.",
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
function knownOf({ crmCode, row, steps }: RecordFacts, { readings }: SharedFacts): FateOfRecord {
  const isWarm = readings.warmUp.state === "done";
  if (crmCode === undefined) {
    return { fate: "uncertain", answer: "to which crmCode it leads is not known" };
  }
  if (row === undefined) {
    return isWarm
      ? { fate: "not_on_service", answer: "the service does not have it" }
      : {
          fate: "uncertain",
          answer: "whether the service has it is not known: the ledger is cold",
        };
  }
  const proven = `last proven at ${clockTime(row.provedAt)}`;
  if (row.uncertain || row.exists === undefined) {
    return {
      fate: "uncertain",
      answer: `what the service has of it is not known (${proven}): a request had no answer, or its row was forgotten`,
      remedy: "Its next change, or crmsync reconcile, asks the service.",
    };
  }
  if (!row.exists) {
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
      answer: "all that was known of it was erased with crmsync forget",
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
        ? "crmsync status says what keeps these events from being accepted, if anything does. Ask again when it shows none in the inbox or to fetch."
        : "Check that the CRM sends this record; crmsync status shows when each source was heard last.",
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
