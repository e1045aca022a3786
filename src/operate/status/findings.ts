/**
 * What holds changes up or needs a person: one sentence each, by its effect (finding.ts), with its section
 * of docs/runbook.md, which the alerts name as well. The stops come from their own table (stops.ts).
 * Pure.
 */
import { crmsync } from "../../base/command.ts";
import { counted } from "../../base/counted.ts";
import { LITTLE_MIB } from "../../base/data-dir.ts";
import { MOST_DOUBLES } from "../../core/state/double-relations.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import type { DeadReason } from "../../core/sync/dead-letter.ts";
import type { ClockStep } from "../../core/state/redis-clock.ts";
import {
  durabilityProblems,
  isClosed,
  mayBeClosed,
  savingProblems,
} from "../../core/state/redis-health.ts";
import { waitingIn, stopsIn } from "./stops.ts";
import { bulkFindings } from "./bulk.ts";
import {
  leftOutFindings,
  rejectionFindings,
  lostChangeFindings,
  retryFindings,
  slownessFindings,
  approvalFindings,
  mappingFindings,
  emptiedFindings,
  terminationFindings,
  crmFindings,
  fetchFindings,
  pullFindings,
  reconcileFindings,
} from "./change-findings.ts";
import { clockTime, duration } from "./clock-time.ts";
import { finding, mostUrgentFirst, warning, type Finding } from "./finding.ts";
import {
  notificationFindings,
  outcomeFindings,
  qualityFindings,
  auditFindings,
  processFindings,
  sealingFindings,
  secretFindings,
} from "./process-findings.ts";
import type { Readings } from "./readings.ts";
import { rejectionsIn, slownessIn } from "./slowness.ts";
import { clockAheadNow, longestPause, refusedIn, silentIn } from "./senders.ts";

/** `<what> <of what>` → how many in the last hour, as processes count them (metrics.ts). */
type Outcomes = Readonly<Record<string, number>>;

const DAY_MS = 86_400_000;

/** Age of a token at which its replacement should be under way, days (spec: every 90 days). */
export const TOKEN_OLD_DAYS = 80;

/** A date without a time is taken as UTC, so a day ahead may be right. */
export const isIssuedAhead = (ageDays: number): boolean => ageDays < -1;

/** A step of Redis' clock is named for this long, ms. */
const STEP_NAMED_MS = 3_600_000;

/** A change that waits longer than this although nothing is stopped is stuck, ms. */
const STUCK_MS = 900_000;

/**
 * A bulk change is stuck when it is older than this and its lane sends nothing, ms: a large import may
 * take days.
 */
const STUCK_BULK_MS = 86_400_000;

/** Fewer events of a source may overtake each other on the way. */
const MANY_OLDER = 10;

/** Value lists are fetched once an hour: after this many hour windows something keeps them away. */
const LISTS_OLD_HOURS = 24;

/** Slow replies tell nothing of the present after this part of the hour window: ten minutes. */
const SLOW_NOW = 6;

/** For so long relations are named that lack a value which a list allows by now, ms. */
const MISSED_NAMED_MS = 30 * 86_400_000;

/** Records with two relations that are named. */
const DOUBLES_NAMED = 5;

/** A list that has lost values is named for this long, ms. */
const LOSS_NAMED_MS = 86_400_000;

const LEDGER_SECTION = "the-ledger-and-the-service-disagree";

/**
 * What stops or delays changes, or needs a person.
 * @param hourMs length of the quota's hour window
 */
export function findingsIn(readings: Readings, hourMs: number): Finding[] {
  const stops = stopFindings(readings);
  const { hours, lostChange, lostChanges, minutes, now, outage, retried } = readings;
  const outcomes = sumOf(minutes);
  const slowdowns = [
    ...memoryFindings(readings),
    ...lostChangeFindings(lostChanges, lostChange),
    // While the service is away, every record is retried.
    ...retryFindings(outage === undefined ? retried : undefined),
    ...slownessFindings(slownessIn(minutes, hours, now - hourMs / SLOW_NOW)),
    ...slowdownFindings(readings),
    ...sealingFindings(readings),
    ...secretFindings(readings),
  ];
  return mostUrgentFirst([
    ...stops,
    ...rejectionFindings(
      rejectionsIn(minutes, now, hourMs).filter(({ top }) => isKept(readings, top)),
    ),
    ...crmFindings(readings),
    ...processFindings(readings),
    ...emptiedFindings(readings),
    ...leftOutFindings(outcomes),
    ...terminationFindings(readings),
    ...approvalFindings(readings),
    ...mappingFindings(readings),
    ...bulkFindings(readings),
    ...reconcileFindings(readings),
    ...slowdowns,
    ...(stops.length === 0 && !isSlowForNow(readings) ? stuckFindings(readings) : []),
    ...redisFindings(readings),
    ...ledgerFindings(readings, outcomes),
    ...listFindings(readings, hourMs),
    ...lostFindings(readings),
    ...undatedFindings(readings),
    ...fetchFindings(outcomes),
    ...pullFindings(readings, outcomes),
    ...senderFindings(readings, outcomes),
    ...clockFindings(readings),
    ...auditFindings(readings),
    ...deadLetterFindings(readings),
    ...notificationFindings(readings),
    ...outcomeFindings(readings, hourMs),
    ...qualityFindings(readings),
    ...tokenFindings(readings),
  ]);
}

/** Once no dead letter of the reason is left, a person has dealt with what was rejected. */
const isKept = ({ deadReasons }: Readings, { reason }: { readonly reason: DeadReason }): boolean =>
  (deadReasons[reason] ?? 0) > 0;

/** Only what stops all changes. */
export function stopFindings(readings: Readings): Finding[] {
  return stopsIn(readings)
    .filter(({ isFinding }) => isFinding)
    .map(({ says, runbook, severity }) => finding(severity, runbook, says));
}

/** What makes changes slower than they should be, or costs extra requests. */
function* slowdownFindings(readings: Readings): Iterable<Finding> {
  const { failingEvents, fallback, fetchFailures, limited, quota, valueListsKnown, warmUp } =
    readings;
  if (limited.length > 0) {
    yield warning(
      "crmsyncqueuepaused",
      `Somebody has limited the queue ${limited.join(" and ")} through BullMQ; crmsync itself never does.`,
    );
  }
  for (const { crm, records, why } of fetchFailures) {
    yield warning(
      "crmsyncrecordsnotfetched",
      `${crm} does not return ${records} of its records (${why}); each is requested again, with growing pauses.`,
      crm,
    );
  }
  const waiting = readings.inboxJobs["delayed"] ?? 0;
  if (!valueListsKnown && waiting > 0) {
    yield warning(
      "the-value-lists-are-not-known",
      `${counted(waiting, "event waits", "events wait")} for the tenant's value lists, which the service has not returned yet; events without values for them go on.`,
    );
  }
  if (valueListsKnown && failingEvents > 0) {
    const which =
      failingEvents === 1
        ? "1 event cannot be processed, and is"
        : `At least ${failingEvents} events cannot be processed, and are`;
    const says = `${which} tried again every few seconds: the log says why (event.retry_scheduled).`;
    yield warning("crmsyncchangestuck", says);
  }
  if (warmUp.state === "cold") {
    const why = warmUp.failure === undefined ? "" : ` (${warmUp.failure})`;
    yield warning(
      "the-ledger-is-cold-or-being-warmed",
      `The ledger is cold: listing kept failing${why}, so a change may cost a second request.`,
    );
  }
  if (isQuotaSpent(readings)) {
    yield warning(
      "crmsyncquotaexhausted",
      quota.foreign === 0
        ? `The hour's quota is spent; the next request returns at ${clockTime(quota.resetAt)}.`
        : `The service says that 0 requests are left (x-ratelimit-remaining); the next one is sent at ${clockTime(quota.resetAt)}. It counts ${quota.foreign} more than we have sent: another program may use this token.`,
    );
  }
  if (fallback) {
    yield warning(
      "crmsyncpacingsteady",
      "Requests are spread evenly for 24 hours, because the service answered a 429 that our own count did not expect: another program may use this token.",
    );
  }
}

/** A Redis that is nearly full, and whose keys fill it. */
function memoryFindings({ ownBytes, redis }: Readings): Finding[] {
  if (!mayBeClosed(redis)) return [];
  const { limitBytes, usedBytes } = redis;
  const others = usedBytes - (ownBytes ?? usedBytes);
  const isOthers = others > usedBytes / 2;
  const whose =
    ownBytes === undefined
      ? ""
      : ` (the keys of this crmsync ${mibText(ownBytes)}, all others ${mibText(others)})`;
  const until = isOthers ? "another program has freed some" : "sync has freed some";
  const [severity, effect] = isClosed(redis)
    ? (["critical", `events are not accepted (503), until ${until}`] as const)
    : ([
        "warning",
        "events are not accepted (503) from 85 % on, until it is below 80 % again, and may not be now",
      ] as const);
  const remedy = isOthers ? " Give crmsync a Redis of its own, or Redis more memory." : "";
  const says = `Redis uses ${Math.round((100 * usedBytes) / limitBytes)} % of its memory${whose}: ${effect}.${remedy}`;
  return [finding(severity, "crmsyncredisnearlyfull", says)];
}

const mibText = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

const isQuotaSpent = (readings: Readings): boolean =>
  readings.quota.remaining === 0 && waitingIn(readings) > 0;

/** What makes all changes wait for longer, and ends by itself: no change counts as stuck meanwhile. */
const isSlowForNow = (readings: Readings): boolean => readings.fallback || isQuotaSpent(readings);

/** What the ledger and the service no longer agree on. */
function* ledgerFindings(
  { doubles, wentBackwardsAt }: Readings,
  outcomes: Outcomes,
): Iterable<Finding> {
  if (wentBackwardsAt !== undefined) {
    yield warning(
      LEDGER_SECTION,
      `Redis went back to an older state, or was emptied (noticed ${clockTime(wentBackwardsAt)}): the ledger was made cold and is warmed again. Events that were accepted since that state are lost, and so are pauses, held changes and dead letters that it lacks: reconcile an export of the CRM.`,
    );
  }
  const gone = outcomes["relation_gone"] ?? 0;
  if (gone > 0) {
    const had = "that crmsync had sent";
    const relations = counted(gone, `relation ${had} is`, `relations ${had} are`);
    yield warning(
      LEDGER_SECTION,
      `In the last hour ${relations} no longer on the service: somebody has deleted them, or the service was reset. Unchanged records are not sent again before: ${crmsync`ledger forget --apply`}.`,
    );
  }
  const notStored = outcomes["not_stored"] ?? 0;
  if (notStored > 0) {
    const changes = counted(notStored, "change");
    yield warning(
      LEDGER_SECTION,
      `In the last hour the service did not have ${changes} that it had confirmed minutes before, of the few that are read again: others may be missing, too. They are sent again; compare the CRM with the service (${crmsync`reconcile`}), and ask those who run the service.`,
    );
  }
  if (doubles.length > 0) yield doubleFinding(doubles);
  const unknown = outcomes["relation_unknown"] ?? 0;
  if (unknown > 0) {
    yield warning(
      LEDGER_SECTION,
      `In the last hour ${counted(unknown, "deletion")} named a relation that was never known: if such a record was sent under another crmCode, its relation is still active. Reconcile an export of the CRM.`,
    );
  }
}

/** It names crmCodes, so it is not notified (notify/topics.ts). */
function doubleFinding(doubles: Readings["doubles"]): Finding {
  const named = doubles.slice(0, DOUBLES_NAMED).map((pair) => pair.join(" and "));
  const more = doubles.length > named.length ? ", …" : "";
  const least = doubles.length >= MOST_DOUBLES ? "At least " : "";
  const records = counted(doubles.length, "record of the CRM has", "records of the CRM have");
  const says = `${least}${records} two relations, the older and the newer one: ${named.join("; ")}${more}. The mapping, or the value that it makes the crmCode of, has changed: end those that are not wanted.`;
  return warning("one-record-has-two-relations", says);
}

/** Value lists that are old, and what was sent by lists that lacked a value. */
function* listFindings(readings: Readings, hourMs: number): Iterable<Finding> {
  const { listsFetchedAt, listsMissed, now, reconciliation } = readings;
  yield* lossFindings(readings);
  const ageMs = now - (listsFetchedAt ?? now);
  if (ageMs > LISTS_OLD_HOURS * hourMs) {
    const says = `The tenant's value lists are ${duration(ageMs)} old, because the service has returned none since: a value that it allows by now is left out, or refused.`;
    yield warning("the-value-lists-are-old", says);
  }
  const from = Math.max(comparedAt(reconciliation), now - MISSED_NAMED_MS);
  const fields = Object.entries(listsMissed?.records ?? {}).flatMap(([field, count]) =>
    count === 0 ? [] : [`${field} (${counted(count, "relation")})`],
  );
  if (listsMissed !== undefined && listsMissed.at > from && fields.length > 0) {
    const says = `Since ${clockTime(listsMissed.at)} the tenant's lists allow more. Sent without a value were ${fields.join(", ")}, at most: each gets it with its next event; reconcile an export of the CRM to send all.`;
    yield warning("values-that-the-lists-lacked", says);
  }
}

/** Values that a list has lost, for a day. */
function lossFindings({ listsLost, now }: Readings): Finding[] {
  const lost = Object.entries(listsLost).flatMap(([field, { at, values }]) => {
    if (now - at > LOSS_NAMED_MS) return [];
    return values === "any"
      ? [`${field} allows only listed values since ${clockTime(at)}`]
      : [`${field} lost ${counted(values.length, "value")} at ${clockTime(at)}`];
  });
  if (lost.length === 0) return [];
  const says = `The tenant's lists allow less: ${lost.join("; ")}. What the service has there stays; new relations are sent without these values.`;
  return [warning("a-value-list-has-lost-values", says)];
}

/** When the last comparison with an export began, ms: it has found what was missing by then. */
const comparedAt = (last: Readings["reconciliation"]): number =>
  last === undefined ? 0 : last.at - last.tookMs;

function stuckFindings({ bulkPause, minutes, now, oldest }: Readings): Finding[] {
  const { live = now } = oldest;
  const isBulkSent = (sumOf(minutes)["sent bulk"] ?? 0) > 0;
  const { bulk = now } = bulkPause === undefined && !isBulkSent ? oldest : {};
  const stuck = [
    ...(now - live > STUCK_MS ? [live] : []),
    ...(now - bulk > STUCK_BULK_MS ? [bulk] : []),
  ];
  if (stuck.length === 0) return [];
  const since = Math.min(...stuck);
  const says = `The oldest change has been waiting since ${clockTime(since)}.`;
  return [warning("crmsyncchangestuck", says)];
}

function redisFindings({ dataDirMib = Infinity, isRedisDirGone, redis }: Readings): Finding[] {
  const full = `The disk of DATA_DIR is full (${dataDirMib.toFixed(1)} MiB left): the embedded Redis ends when it cannot write, and the daemon with it. What was accepted is kept.`;
  return [
    ...(dataDirMib < LITTLE_MIB ? [finding("critical", "crmsyncredisaway", full)] : []),
    ...durabilityProblems(redis, isRedisDirGone).map((problem) =>
      warning("crmsyncredisnotdurable", `Redis: ${problem}.`),
    ),
    ...savingProblems(redis).map((problem) =>
      warning("crmsyncredissavesfailing", `Redis: ${problem}.`),
    ),
  ];
}

/** Clocks of sources whose events cannot be ordered by their own times, and a clock of Redis that was set. */
function clockFindings({ now, clocksAhead, clockStep }: Readings): Finding[] {
  const step = clockStep === undefined ? [] : stepFinding(now, clockStep);
  const ahead = Object.entries(clocksAhead).flatMap(([name, seen]) => {
    const aheadMs = clockAheadNow(now, seen);
    const says = `The clock of ${name} is ${duration(aheadMs)} ahead of Redis' clock: its events count as of their arrival.`;
    return aheadMs === 0 ? [] : [warning("crmsyncsourceclockahead", says)];
  });
  return [...step, ...ahead];
}

function stepFinding(now: number, { stepMs, at }: ClockStep): Finding[] {
  if (now - at > STEP_NAMED_MS) return [];
  const side = stepMs > 0 ? "forward" : "back";
  const says = `Redis' clock was set ${side} by ${duration(Math.abs(stepMs))} (${clockTime(at)}): pauses and retries may end earlier or later, and the service may answer 429 once. No change is lost.`;
  return [warning("the-clock-of-redis-was-set", says)];
}

function undatedFindings({ undated }: Readings): Finding[] {
  return Object.entries(undated).map(([webhook, at]) => {
    const says = `The webhook ${webhook} has dated changes before 2000, which stands for no time (${clockTime(at)}): they count as of their arrival, so the order of two of one record is that of arrival. Correct \`time\` in the mapping, or the CRM.`;
    return warning("changes-are-dated-before-2000", says, webhook);
  });
}

/** CRMs that have lost changes, until a comparison that began afterwards: it has found what is missing. */
function lostFindings({ changesLost, reconciliation }: Readings): Finding[] {
  return Object.entries(changesLost).flatMap(([webhook, at]) => {
    if (at <= comparedAt(reconciliation)) return [];
    const says = `The CRM of the webhook ${webhook} has reported that it lost changes (${clockTime(at)}): it will not send them. Reconcile an export of it.`;
    return [finding("critical", "crmsyncchangeslost", says, webhook)];
  });
}

function senderFindings(readings: Readings, outcomes: Outcomes): Finding[] {
  const errors = refusedIn(outcomes).map(({ address, why, count }) =>
    /^\d+$/.test(why) ? `${count} on ${address} with ${why}` : `${count} on ${address} (${why})`,
  );
  const says = `Requests of senders were not accepted in the last hour: ${errors.join(", ")}; their events are not here.`;
  return [
    ...(errors.length === 0 ? [] : [warning("crmsyncsendererrors", says)]),
    ...reusedFindings(outcomes),
    ...olderFindings(outcomes),
    ...[...silentIn(readings)].map((name) => silentFinding(readings, name)),
  ];
}

function silentFinding({ sourcePauses, sources }: Readings, name: string): Finding {
  const lastAt = sources[name] ?? 0;
  const longestMs = longestPause(sourcePauses[name], lastAt);
  const usual = longestMs === 0 ? "" : `; its longest pause before took ${duration(longestMs)}`;
  const says = `${name} has sent nothing since ${clockTime(lastAt)}${usual}.`;
  return warning("crmsyncsourcesilent", says, name);
}

function reusedFindings(outcomes: Outcomes): Finding[] {
  return Object.entries(outcomes).flatMap(([name, count]) => {
    const source = /^id_reused (.+)$/.exec(name)?.[1];
    if (source === undefined || count === 0) return [];
    const says = `In the last hour ${counted(count, "event")} had the source ${source} and an id of an earlier event, and other content: each was processed as a change of its own. Each change needs an id of its own.`;
    return [warning("event-ids-that-are-used-again", says, source)];
  });
}

function olderFindings(outcomes: Outcomes): Finding[] {
  return Object.entries(outcomes).flatMap(([name, count]) => {
    const source = /^older (.+)$/.exec(name)?.[1];
    if (source === undefined || count < MANY_OLDER) return [];
    const says = `In the last hour ${count} events of ${source} were older than what is known, and said something else: its clock is behind, or one of its routes is slow. Compare the CRM with the service (${crmsync`reconcile`}).`;
    return [warning("events-that-are-older-than-what-is-known", says, source)];
  });
}

function deadLetterFindings({ deadLetters, expiring }: Readings): Finding[] {
  if (deadLetters === 0) return [];
  const says = `${counted(deadLetters, "dead letter waits", "dead letters wait")} for a person: ${crmsync`dead list`}.`;
  return [...expiringFindings(expiring), warning("crmsyncdeadletters", says)];
}

function expiringFindings(expiring: Readings["expiring"]): Finding[] {
  if (expiring === undefined || expiring.soon === 0) return [];
  const { soon, withinMs, firstMs } = expiring;
  const says =
    soon === 1
      ? `1 dead letter is deleted within ${duration(firstMs)} unless it is redriven or dropped`
      : `${soon} dead letters are deleted within ${duration(withinMs)}, the first one in ${duration(firstMs)}, unless they are redriven or dropped`;
  return [warning("crmsyncdeadlettersexpiring", `${says}: ${crmsync`dead list`} says when.`)];
}

export const tokenAgeDays = ({ now, tokenIssuedAt }: Readings): number | undefined =>
  tokenIssuedAt === undefined ? undefined : Math.floor((now - tokenIssuedAt) / DAY_MS);

function tokenFindings(readings: Readings): Finding[] {
  const ageDays = tokenAgeDays(readings);
  if (ageDays === undefined) return [];
  if (isIssuedAhead(ageDays)) {
    const says = `SERVICE_TOKEN_ISSUED_AT is ${-ageDays} days ahead, so nothing tells when the token is old: correct it, and restart.`;
    return [warning("crmsynctokenold", says)];
  }
  if (ageDays < TOKEN_OLD_DAYS) return [];
  const says = `The service token is ${ageDays} days old; it should be replaced every 90 days.`;
  return [warning("crmsynctokenold", says)];
}
