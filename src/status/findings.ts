/**
 * What holds changes up or needs a person: one sentence each, most pressing first, with its section
 * of docs/runbook.md, which the alerts name as well. The stops come from their own table (stops.ts).
 * Pure.
 */
import { durabilityProblems, isClosed } from "../state/redis-health.ts";
import { waitingIn } from "./backlog.ts";
import { clockTime } from "./clock-time.ts";
import type { Readings } from "./readings.ts";
import { stopsIn } from "./stops.ts";

export interface Finding {
  readonly severity: "stopped" | "warning";
  readonly says: string;
  readonly runbook: string;
}

/** What findings need in addition to the readings. */
export interface FindingContext {
  readonly tokenAgeDays: number | undefined;
  /** `sender_error <route> <code>` and `relation_gone` → how many in the last hour. */
  readonly outcomes: Readonly<Record<string, number>>;
}

/** Age of a token at which its replacement should be under way, days (spec: every 90 days). */
export const TOKEN_OLD_DAYS = 80;

/** A change that waits longer than this although nothing is stopped is stuck, ms. */
const STUCK_MS = 900_000;

const LEDGER_SECTION = "the-ledger-and-the-service-disagree";

/** A source that sent something within a week and nothing for a day is silent, ms. */
const SILENT_MS = 86_400_000;
const FORGOTTEN_MS = 7 * SILENT_MS;

const HOUR_MS = 3_600_000;

/** A clock that was ahead counts as wrong for this long, ms. */
const CLOCK_FORGOTTEN_MS = HOUR_MS;

/** A process without a heartbeat for this long hangs or was killed, ms (it sends one every 5 s). */
const QUIET_MS = 12_000;

export function findingsIn(readings: Readings, context: FindingContext): Finding[] {
  const stops = stopFindings(readings);
  const slowdowns = slowdownFindings(readings);
  return [
    ...stops,
    ...slowdowns,
    ...(stops.length + slowdowns.length === 0 ? stuckFindings(readings) : []),
    ...redisFindings(readings),
    ...ledgerFindings(readings, context),
    ...senderFindings(readings, context),
    ...clockFindings(readings),
    ...deadLetterFindings(readings),
    ...tokenFindings(context),
  ];
}

/** Only what stops all changes. */
export function stopFindings(readings: Readings): Finding[] {
  return stopsIn(readings)
    .filter(({ isFinding }) => isFinding)
    .map(({ says, runbook }) => finding("stopped", runbook, says));
}

/** What makes changes slower than they should be, or costs extra requests. */
function slowdownFindings(readings: Readings): Finding[] {
  const { now, processes, quota, warmUp, fallback, fetchFailure, fetchJobs, redis } = readings;
  const found: Finding[] = [];
  const warn = (runbook: string, says: string) => found.push(finding("warning", runbook, says));
  if (isClosed(redis)) {
    const percent = Math.round((100 * redis.usedBytes) / redis.limitBytes);
    warn(
      "crmsyncredisnearlyfull",
      `Redis uses ${percent} % of its memory: events are not accepted (503), until sync has freed some.`,
    );
  }
  for (const { id, seenAt } of processes) {
    if (now - seenAt <= QUIET_MS) continue;
    warn(
      "crmsyncdown",
      `The process ${id} has sent no heartbeat since ${clockTime(seenAt)}: it hangs, or was killed.`,
    );
  }
  if (fetchFailure !== undefined) {
    const { crm, why } = fetchFailure;
    warn(
      "crmsyncrecordsnotfetched",
      `${crm} does not return ${fetchJobs["delayed"] ?? 0} of its records (${why}); each is requested again, with growing pauses.`,
    );
  }
  const waiting = readings.inboxJobs["delayed"] ?? 0;
  if (!readings.valueListsKnown && waiting > 0) {
    warn(
      "the-value-lists-are-not-known",
      `${waiting === 1 ? "1 event waits" : `${waiting} events wait`} for the tenant's value lists, which the service has not returned yet; events without values for them go on.`,
    );
  }
  if (warmUp.state === "cold") {
    const why = warmUp.failure === undefined ? "" : ` (${warmUp.failure})`;
    warn(
      "the-ledger-is-cold-or-being-warmed",
      `The ledger is cold: listing kept failing${why}, so a change may cost a second request.`,
    );
  }
  if (quota.remaining === 0 && waitingIn(readings) > 0) {
    warn(
      "crmsyncquotaexhausted",
      `The hour's quota is spent; the next request returns at ${clockTime(quota.resetAt)}.`,
    );
  }
  if (fallback) {
    warn(
      "crmsyncpacingsteady",
      "Requests are spread evenly for 24 hours, because the service answered a 429 that our own count did not expect: another program may use this token.",
    );
  }
  return found;
}

/** What the ledger and the service no longer agree on. */
function ledgerFindings({ wentBackwardsAt }: Readings, { outcomes }: FindingContext): Finding[] {
  const gone = outcomes["relation_gone"] ?? 0;
  const found: Finding[] = [];
  const warn = (says: string) => found.push(finding("warning", LEDGER_SECTION, says));
  if (wentBackwardsAt !== undefined) {
    warn(
      `Redis went back to an older state (noticed ${clockTime(wentBackwardsAt)}): the ledger was made cold and is warmed again. Events that were accepted since that state are lost: push an export of the CRM.`,
    );
  }
  if (gone > 0) {
    const relations =
      gone === 1
        ? "1 relation that crmsync had sent is"
        : `${gone} relations that crmsync had sent are`;
    warn(
      `In the last hour ${relations} no longer on the service: somebody has deleted them, or the service was reset. Unchanged records are not sent again before: crmsync ledger forget --apply.`,
    );
  }
  return found;
}

function stuckFindings({ now, oldest }: Readings): Finding[] {
  const since = Math.min(oldest.live ?? now, oldest.bulk ?? now);
  if (now - since <= STUCK_MS) return [];
  const says = `The oldest change has been waiting since ${clockTime(since)}.`;
  return [finding("warning", "crmsyncchangestuck", says)];
}

function redisFindings({ redis }: Readings): Finding[] {
  const found = durabilityProblems(redis).map((problem) =>
    finding("warning", "crmsyncredisnotdurable", `Redis: ${problem}.`),
  );
  return found;
}

/** Clocks whose events cannot be ordered by their own times. */
function clockFindings({ now, clocksAhead }: Readings): Finding[] {
  return Object.entries(clocksAhead)
    .filter(([, { at }]) => now - at < CLOCK_FORGOTTEN_MS)
    .map(([name, { aheadMs }]) => {
      const says = `The clock of ${name} is ${duration(aheadMs)} ahead of Redis' clock: its events count as of their arrival.`;
      return finding("warning", "the-clock-of-a-source-is-ahead", says);
    });
}

const duration = (ms: number): string =>
  ms < HOUR_MS ? `${Math.round(ms / 1000)} seconds` : `${(ms / HOUR_MS).toFixed(1)} hours`;

function senderFindings({ now, sources }: Readings, { outcomes }: FindingContext): Finding[] {
  const errors = Object.entries(outcomes).flatMap(([name, count]) => {
    const [, route, code] = /^sender_error (\w+) (\d+)$/.exec(name) ?? [];
    return code === undefined || count === 0 ? [] : [`${count} on /${route} with ${code}`];
  });
  const silent = Object.entries(sources).filter(
    ([, at]) => now - at > SILENT_MS && now - at < FORGOTTEN_MS,
  );
  const says = `Requests of senders were not accepted in the last hour: ${errors.join(", ")}; their events are not here.`;
  return [
    ...(errors.length === 0 ? [] : [finding("warning", "crmsyncsendererrors", says)]),
    ...silent.map(([name, at]) =>
      finding("warning", "crmsyncsourcesilent", `${name} has sent nothing since ${clockTime(at)}.`),
    ),
  ];
}

function deadLetterFindings({ deadLetters }: Readings): Finding[] {
  if (deadLetters === 0) return [];
  const count = deadLetters === 1 ? "1 dead letter waits" : `${deadLetters} dead letters wait`;
  return [finding("warning", "crmsyncdeadletters", `${count} for a person: crmsync dead list.`)];
}

function tokenFindings({ tokenAgeDays }: FindingContext): Finding[] {
  if (tokenAgeDays === undefined || tokenAgeDays < TOKEN_OLD_DAYS) return [];
  const says = `The service token is ${tokenAgeDays} days old; it should be replaced every 90 days.`;
  return [finding("warning", "crmsynctokenold", says)];
}

function finding(severity: Finding["severity"], section: string, says: string): Finding {
  return { severity, says, runbook: `docs/runbook.md#${section}` };
}
