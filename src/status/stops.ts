/**
 * What keeps all changes from being sent now: the one table of stops. Each row gives the reason (a
 * label of `crmsync_sending_stopped`), the sentence for people and the section of the runbook, most
 * pressing first. Pure.
 */
import type { Waiting } from "../quota/pacing.ts";
import { runsAtLimit } from "../ops/redis-script.ts";
import { isFull } from "../state/redis-health.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { inWords, REJECTING } from "../sync/service-reply.ts";
import {
  doubtText,
  notSendingIn,
  TENANT_UNKNOWN,
  areProcessesUnknown,
  whyWritesRejected,
} from "./process-findings.ts";
import { clockTime } from "./clock-time.ts";
import type { Readings } from "./readings.ts";
import { ROLES, type Role } from "../state/heartbeats.ts";
import { QUEUE_STATES, type JobCounts } from "./queue-reading.ts";

export const STOP_REASONS = [
  "redis_full",
  "redis_rejects_writes",
  "queue_paused",
  "audit_failed",
  "tenant_unknown",
  "token_denied",
  "address_denied",
  "unavailable",
  "throttled",
  "warming_up",
] as const;
type StopReason = (typeof STOP_REASONS)[number];

interface StopRow {
  /** Undefined for a missing process: no process is there to export the metric. */
  readonly reason: StopReason | undefined;
  /** Section of docs/runbook.md; the alerts name the same ones. */
  readonly runbook: string;
  /** Whether it ends by itself at a time that can be estimated. */
  readonly endsByItself: boolean | ((readings: Readings) => boolean);
  /** False while no change waits for its end: it is counted then, but is no finding. */
  readonly isFinding?: (readings: Readings) => boolean;
  /** The sentence; undefined while this stop is not in force. */
  readonly says: (readings: Readings) => string | undefined;
}

const STOPS: readonly StopRow[] = [
  {
    reason: "redis_full",
    runbook: "crmsyncredisnearlyfull",
    endsByItself: false,
    says: ({ redis }) =>
      isFull(redis) && !runsAtLimit(redis.version)
        ? "Redis is full (100 % of its memory): it accepts no events, and nothing is sent. Redis 7 or newer would let sync go on."
        : undefined,
  },
  {
    reason: "redis_rejects_writes",
    runbook: "crmsyncredisrejectswrites",
    endsByItself: false,
    says(readings) {
      const why = whyWritesRejected(readings);
      return why && `Redis rejects all writes: ${why}. It accepts no events, and nothing is sent.`;
    },
  },
  {
    reason: undefined,
    runbook: "crmsyncdown",
    endsByItself: false,
    says(readings) {
      const { lost, processes } = readings;
      if (processes.length > 0 || areProcessesUnknown(readings)) return undefined;
      if (lost === undefined) return "No process of crmsync is running.";
      return `No process of crmsync sends heartbeats; the last one was of ${lost.id} at ${clockTime(lost.seenAt)}: it hangs, or was killed.`;
    },
  },
  {
    reason: undefined,
    runbook: "crmsyncrolemissing",
    endsByItself: false,
    says: (readings) => {
      const isUnknown = readings.processes.length === 0 || areProcessesUnknown(readings);
      const missing = isUnknown ? [] : missingRoles(readings);
      return missing.length === 0
        ? undefined
        : `No running process has the role ${missing.join(", and none has the role ")}.`;
    },
  },
  {
    reason: "queue_paused",
    runbook: "crmsyncqueuepaused",
    endsByItself: false,
    says: ({ paused }) =>
      paused.length === 0
        ? undefined
        : `Somebody has paused the queue ${paused.join(" and ")} through BullMQ; crmsync itself never does.`,
  },
  {
    reason: "audit_failed",
    runbook: "crmsyncauditfailed",
    endsByItself: false,
    says(readings) {
      const { all: why } = notSendingIn(readings, "auditFailure");
      return why && `The audit trail cannot be written (${why}): nothing is sent until it can.`;
    },
  },
  {
    reason: "tenant_unknown",
    runbook: TENANT_UNKNOWN,
    endsByItself: false,
    says(readings) {
      const { all: doubt } = notSendingIn(readings, "tokenDoubt");
      return doubt && `${doubtText(doubt)}. Nothing is sent with it.`;
    },
  },
  {
    reason: "token_denied",
    runbook: "crmsynctokendenied",
    endsByItself: false,
    says: ({ denial }) =>
      denial?.cause === "token"
        ? `The service denies the token (401) since ${clockTime(denial.since)}; next probe ${clockTime(denial.nextProbeAt)}, or at once when the token file changes or crmsync doctor is run.`
        : undefined,
  },
  {
    reason: "address_denied",
    runbook: "crmsyncaddressdenied",
    endsByItself: false,
    says: ({ denial }) =>
      denial?.cause === "address"
        ? `The service denies our address ${denial.address || "(not named)"} (403) since ${clockTime(denial.since)}; next probe ${clockTime(denial.nextProbeAt)}, or at once when crmsync doctor is run.`
        : undefined,
  },
  {
    reason: "unavailable",
    runbook: "crmsyncserviceunavailable",
    endsByItself: false,
    says: (readings) => {
      const { now, outage } = readings;
      // Only a change ends an outage. While none may be sent, the next one is tried at once: nothing is stopped.
      const isStopped = outage && (outage.nextTryAt > now || unpausedIn(readings) > 0);
      if (!isStopped) return undefined;
      const what =
        outage.reason === REJECTING
          ? "rejects everything"
          : `gives no usable reply (${inWords(outage.reason)})`;
      return `The service ${what} since ${clockTime(outage.since)}; next try ${clockTime(outage.nextTryAt)}.`;
    },
  },
  {
    reason: "throttled",
    runbook: "crmsyncthrottled",
    endsByItself: true,
    says: ({ quota: { until, remaining } }) => {
      if (until === undefined) return undefined;
      const unexplained =
        remaining > 0
          ? `, although our own count has ${remaining} requests left: another program may use this token`
          : "";
      return `The service asked us to wait (429) until ${clockTime(until)}${unexplained}.`;
    },
  },
  {
    reason: "warming_up",
    runbook: "the-ledger-is-cold-or-being-warmed",
    endsByItself: ({ warmUp }) => warmUp.failure === undefined,
    isFinding: (readings) => waitingIn(readings) > 0,
    says: ({ warmUp: { state, relations, failure } }) => {
      if (state !== "new" && state !== "running") return undefined;
      return failure === undefined
        ? `The ledger is being warmed (${relations} relations so far); changes are sent after that.`
        : `The service cannot be listed (${inWords(failure)}); changes are sent once it can, or after five tries.`;
    },
  },
];

/** Every stop that is in force now, most pressing first. */
export function stopsIn(readings: Readings) {
  return STOPS.flatMap(({ reason, runbook, endsByItself, isFinding, says }) => {
    const sentence = says(readings);
    if (sentence === undefined) return [];
    return [
      {
        reason,
        runbook,
        says: sentence,
        endsByItself: typeof endsByItself === "function" ? endsByItself(readings) : endsByItself,
        isFinding: isFinding?.(readings) ?? true,
      },
    ];
  });
}

/** The reasons that are in force now, as the metric and the status name them. */
export function stopReasonsIn(readings: Readings): ReadonlySet<StopReason> {
  return new Set(stopsIn(readings).flatMap(({ reason }) => (reason === undefined ? [] : [reason])));
}

/**
 * When the backlog will be drained, ms, but not before the last retry that waits; undefined while that
 * cannot be estimated, as before the first reply of the service.
 */
export function drainedAt(readings: Readings): number | undefined {
  if (waitingIn(readings) === 0) return readings.now;
  const { bulkPause, fetchFailures, unsynced } = readings;
  const isUnknown = fetchFailures.length > 0 || (bulkPause !== undefined && unsynced.bulk > 0);
  return isUnknown ? undefined : sentAt(readings, requestsFor(readings), LANES);
}

/**
 * When so many requests will have been sent, ms, but not before the last retry of these lanes; undefined
 * while that cannot be estimated.
 */
export function sentAt(
  readings: Readings,
  requests: Waiting,
  lanes: readonly Lane[],
): number | undefined {
  const { lastRetryAt, limited, quota } = readings;
  const stops = stopsIn(readings).some(({ endsByItself }) => !endsByItself);
  const isUnknown = !quota.hasSent || limited.length > 0 || stops;
  if (isUnknown) return undefined;
  return Math.max(quota.drainedAt(requests), ...lanes.map((lane) => lastRetryAt[lane]));
}

/** Everything accepted that is not on the service: records, events of the inbox, records to fetch. */
export function waitingIn({ unsynced, inboxJobs, fetchJobs }: Readings): number {
  return unsynced.live + unsynced.bulk + unfinished(inboxJobs) + unfinished(fetchJobs);
}

/** What waits, without the changes that a pause of the lane bulk keeps from being sent. */
const unpausedIn = (readings: Readings): number =>
  waitingIn(readings) - (readings.bulkPause === undefined ? 0 : readings.unsynced.bulk);

/**
 * The requests that the backlog needs, at least. Before any record is sent, the ledger is listed, and
 * the value lists are requested. Events of the inbox count as live: their lane is not known yet.
 */
export function requestsFor(readings: Readings): Waiting {
  const { unsynced, inboxJobs, fetchJobs, warmUp, valueListsKnown } = readings;
  const isWarming = warmUp.state === "new" || warmUp.state === "running";
  const first = Number(isWarming) + Number(!valueListsKnown);
  const live = first + unsynced.live + unfinished(inboxJobs) + unfinished(fetchJobs);
  return { live, bulk: unsynced.bulk };
}

/** Jobs of a queue that are not done. */
export const unfinished = (jobs: JobCounts): number =>
  QUEUE_STATES.filter((state) => state !== "failed").reduce(
    (sum, state) => sum + (jobs[state] ?? 0),
    0,
  );

/** Roles that changes need, and that no running process has. */
function missingRoles({ processes }: Readings): Role[] {
  return ROLES.toReversed().filter(
    (role) => role !== "http" && !processes.some(({ roles }) => roles.includes(role)),
  );
}
