/**
 * What keeps all changes from being sent now: the one table of stops. Each row gives the reason (a
 * label of `crmsync_sending_stopped`), the sentence for people and the section of the runbook, most
 * pressing first. Pure.
 */
import { crmsync } from "../../base/command.ts";
import type { Waiting } from "../../core/quota/pacing.ts";
import { runsAtLimit } from "../../base/redis-script.ts";
import { isFull } from "../../core/state/redis-health.ts";
import { LANES, type Lane } from "../../core/event/lane.ts";
import { inWords, REJECTING } from "../../core/sync/service-reply.ts";
import {
  doubtText,
  notSendingIn,
  TENANT_UNKNOWN,
  areProcessesUnknown,
  whyWritesRejected,
} from "./process-findings.ts";
import { clockTime } from "./clock-time.ts";
import type { Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";
import { ROLES, type Role } from "../../core/state/heartbeats.ts";
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
  "send_off",
] as const;
type StopReason = (typeof STOP_REASONS)[number];

interface StopRow {
  /** Undefined for a missing process: no process is there to export the metric. */
  readonly reason: StopReason | undefined;
  /** Section of docs/runbook.md; the alerts name the same ones. */
  readonly runbook: string;
  /** Whether it ends by itself at a time that can be estimated. */
  readonly endsByItself: boolean | ((readings: Readings) => boolean);
  /** Of its finding; a stop that was chosen is a warning. */
  readonly severity?: Finding["severity"];
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
    says: ({ denial, now }) =>
      denial?.cause === "token"
        ? `The service denies the token (401) since ${clockTime(denial.since)}; next probe ${fromNow(now, denial.nextProbeAt)}, or at once when the token file changes or ${crmsync`doctor`} is run.`
        : undefined,
  },
  {
    reason: "address_denied",
    runbook: "crmsyncaddressdenied",
    endsByItself: false,
    says: ({ denial, now }) =>
      denial?.cause === "address"
        ? `The service denies our address ${denial.address || "(not named)"} (403) since ${clockTime(denial.since)}; next probe ${fromNow(now, denial.nextProbeAt)}, or at once when ${crmsync`doctor`} is run.`
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
      return `The service ${what} since ${clockTime(outage.since)}; ${nextTryText(readings, outage.nextTryAt)}.`;
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
    isFinding: (readings) => waitingIn(readings) > 0 || readings.warmUp.failure !== undefined,
    says: ({ warmUp: { state, relations, failure } }) => {
      if (state !== "new" && state !== "running") return undefined;
      return failure === undefined
        ? `The ledger is being warmed (${relations} relations so far); changes are sent after that.`
        : `The service cannot be listed (${inWords(failure)}); changes are sent once it can, or after five tries.`;
    },
  },
  {
    reason: "send_off",
    runbook: "sending-is-off",
    endsByItself: false,
    severity: "warning",
    says({ processes }) {
      const syncing = processes.filter(({ roles }) => roles.includes("sync"));
      const isOff =
        syncing.length > 0 && syncing.every(({ settings }) => settings?.["SEND"] === "off");
      return isOff
        ? `SEND is off: changes are accepted and wait, and none is sent. What would be sent: ${crmsync`shadow report`}.`
        : undefined;
    },
  },
];

/** Every stop that is in force now, most pressing first. */
export function stopsIn(readings: Readings) {
  return STOPS.flatMap(
    ({ reason, runbook, endsByItself, isFinding, says, severity = "stopped" }) => {
      const sentence = says(readings);
      if (sentence === undefined) return [];
      return [
        {
          reason,
          runbook,
          severity,
          says: sentence,
          endsByItself: typeof endsByItself === "function" ? endsByItself(readings) : endsByItself,
          isFinding: isFinding?.(readings) ?? true,
        },
      ];
    },
  );
}

/** The reasons that are in force now, as the metric and the status name them. */
export function stopReasonsIn(readings: Readings): ReadonlySet<StopReason> {
  return new Set(stopsIn(readings).flatMap(({ reason }) => (reason === undefined ? [] : [reason])));
}

/** What is to come, and may be late. @param at ms */
const fromNow = (now: number, at: number): string => (at > now ? clockTime(at) : "now");

/** During an outage one record at a time is tried: once the pause is over, the first that is due. */
function nextTryText({ bulkPause, firstDueAt, now, syncJobs }: Readings, pauseEndsAt: number) {
  if ((syncJobs["active"] ?? 0) > 0) return "a change is being tried now";
  const { live, bulk } = firstDueAt;
  const at = Math.max(pauseEndsAt, bulkPause === undefined ? Math.min(live, bulk) : live);
  return at === Infinity ? "the next change tries it again" : `next try ${fromNow(now, at)}`;
}

/**
 * When all that waits in these lanes will have been sent, ms, but not before their last retry; undefined while
 * that cannot be estimated, as before the first reply of the service.
 */
export function sentAt(readings: Readings, lanes: readonly Lane[] = LANES): number | undefined {
  const { bulkPause, fetchFailures, lastRetryAt, limited, processes, quota } = readings;
  const isBulkKnown = bulkPause === undefined && !isInterrupted(readings);
  const isUnknown =
    !quota.hasSent ||
    limited.length > 0 ||
    processes.some(({ mappingWaits }) => mappingWaits !== undefined) ||
    stopsIn(readings).some(({ endsByItself }) => !endsByItself) ||
    (lanes.includes("live") && fetchFailures.length > 0) ||
    (bulkPending(readings) > 0 && !isBulkKnown);
  if (isUnknown) return undefined;
  const requests = requestsFor(readings);
  return Math.max(quota.drainedAt(requests), ...lanes.map((lane) => lastRetryAt[lane]));
}

/** Changes of the lane bulk that are not on the service: those that wait, and those that a plan has still to feed. */
export const bulkPending = ({ feeding, unsynced }: Readings): number =>
  unsynced.bulk + (feeding?.left ?? 0);

/** Whether no process carries out the plan that was begun last. */
export const isInterrupted = ({ feeding, isFeeding }: Readings): boolean =>
  feeding !== undefined && feeding.left > 0 && !isFeeding;

/** Everything that is not on the service: records, what a plan has still to feed, events of the inbox, records to fetch. */
export const waitingIn = (readings: Readings): number =>
  readings.unsynced.live +
  bulkPending(readings) +
  unfinished(readings.inboxJobs) +
  unfinished(readings.fetchJobs);

/** What waits, without what a pause of the lane bulk, or of a plan, keeps from being sent. */
function unpausedIn(readings: Readings): number {
  const { bulkPause, feeding } = readings;
  const kept = isInterrupted(readings) ? (feeding?.left ?? 0) : 0;
  return waitingIn(readings) - (bulkPause === undefined ? kept : bulkPending(readings));
}

/**
 * The requests that the backlog needs, at least. Before any record is sent, the ledger is listed, and
 * the value lists are requested. Events of the inbox count as live: their lane is not known yet.
 */
export function requestsFor(readings: Readings): Waiting {
  const { feeding, unsynced, inboxJobs, fetchJobs, warmUp, valueListsKnown } = readings;
  const isWarming = warmUp.state === "new" || warmUp.state === "running";
  const first = Number(isWarming) + Number(!valueListsKnown);
  const live = first + unsynced.live + unfinished(inboxJobs) + unfinished(fetchJobs);
  return { live, bulk: unsynced.bulk + (feeding?.requests ?? 0) };
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
