/** One reading of all shared state in Redis; every process reads the same. */
import { once } from "node:events";
import type { Redis } from "ioredis";
import { mibLeft } from "../../base/data-dir.ts";
import { within } from "../../base/deadline.ts";
import { isRedisDirGone } from "../../base/embedded-redis.ts";
import { nowReading, readTogether } from "../../base/redis-reading.ts";
import { runningAt, type RunningProcess } from "../../core/state/heartbeats.ts";
import { clockStepReading } from "../../core/state/redis-clock.ts";
import { healthReading, mayBeClosed } from "../../core/state/redis-health.ts";
import { folderAt } from "../../core/state/reconcile-runs.ts";
import type { LineCounts } from "../../core/state/line.ts";
import { queueReading, type JobCounts } from "./queue-reading.ts";
import { terminationLimit } from "../../core/state/termination-guard.ts";
import type { Stores } from "./stores.ts";

/** No reader waits longer for Redis, ms. */
export const REDIS_DEADLINE_MS = 2000;

/** What one reading tells. Times in ms, by Redis' clock. */
export type Readings = Readonly<Awaited<ReturnType<typeof takeReadings>>>;

/** The line, in the words of a queue. */
const jobsIn = ({ due, inFlight, later }: LineCounts): JobCounts => ({
  wait: due.live + due.bulk,
  active: inFlight,
  delayed: later,
});

/** @param redis the connection to read over, if it is not that of the stores. */
export async function takeReadings(stores: Stores, redis: Redis = stores.redis) {
  const { config } = stores;
  const isEmbedded = config.REDIS_URL === undefined;
  const [pingMs, dataDirMib, isDirGone, read] = await Promise.all([
    pingOf(redis),
    isEmbedded ? mibLeft(config.DATA_DIR) : undefined,
    isEmbedded && isRedisDirGone(config.DATA_DIR),
    readAll(stores, redis),
  ]);
  // These are parts of what follows.
  const {
    all,
    fetch,
    folders,
    inbox,
    line,
    held,
    heldSince,
    countedTerminations,
    activeRelations,
    notificationsWaiting,
    notifyFailure,
    toldWaiting,
    toldFailure,
    toldLeftOut,
    ...others
  } = read;
  const issuedAt = config.SERVICE_TOKEN_ISSUED_AT;
  const queues = Object.entries({
    [stores.inbox.queue.name]: inbox,
    [stores.thinEvents.queue.name]: fetch,
  });
  const processes = runningAt(read.now, all);
  return {
    ...others,
    /** How much of Redis' memory our keys take; undefined: not known, or Redis is not nearly full. */
    ownBytes: mayBeClosed(read.redis) ? await stores.ownMemory.bytes() : undefined,
    /** How long Redis took to answer, ms. */
    pingMs,
    /** Free space where the embedded Redis keeps its data, MiB; undefined: it is another one, or not known. */
    dataDirMib,
    /** Whether the folder of the embedded Redis was removed while it runs. */
    isRedisDirGone: isDirGone,
    inboxJobs: inbox.jobs,
    syncJobs: jobsIn(line),
    fetchJobs: fetch.jobs,
    /** When the last of the records and events of each lane is due that wait for another try; 0: none does. */
    lastRetryAt: line.lastDueAt,
    /** When the first record of each lane is due, or was; Infinity: none waits. */
    firstDueAt: line.firstDueAt,
    /** Events, of the 100 that are tried again next, that have failed three times or more. */
    failingEvents: inbox.failing,
    /** Queues that somebody has paused through BullMQ; crmsync itself never does. */
    paused: queues.flatMap(([name, { paused }]) => (paused ? [name] : [])),
    /** Queues that somebody has limited through BullMQ, each with its limits. */
    limited: queues.flatMap(([name, { limit }]) => (limit ? [`${name} to ${limit}`] : [])),
    /** Time of the oldest change of each lane that is not on the service. */
    oldest: {
      live: earliest([line.since.live, inbox.oldestAt, fetch.oldestAt]),
      bulk: line.since.bulk,
    },
    unsynced: line.unsynced,
    /** The record that has failed for longest, of those that fail again and again. */
    retried: line.retried,
    /** How many changes are gone from Redis, and the hash of the crmCode of one of them. */
    lostChanges: Math.max(read.lostChanges, line.missing === undefined ? 0 : 1),
    lostChange: read.lostChange ?? line.missing,
    terminations: {
      /** Terminations that wait for a person, and since when the first of them. */
      held,
      heldSince,
      /** Why the oldest of them are held, and how many for that. */
      heldBy: held === 0 ? {} : await stores.heldTerminations.reasons(redis),
      /** Relations terminated without approval that count now, and how many may; Infinity: any number. */
      counted: countedTerminations,
      limit: terminationLimit(
        String(settingIn(processes, "TERMINATE_LIMIT") ?? stores.terminationGuard.limit),
        activeRelations,
      ),
    },
    /** How many relations may lose a field in an hour; Infinity: any number. */
    emptyLimit: Number(settingIn(processes, "EMPTY_LIMIT") ?? stores.emptyingGuard.limit),
    /** Notifications that wait, and why they are not delivered. */
    notifications: { waiting: notificationsWaiting, failure: notifyFailure },
    /**
     * Outcomes that wait to be sent, why sending failed, and how many were left out within a day; undefined:
     * OUTCOME_WEBHOOK is off.
     */
    told: stores.told.isOn
      ? { waiting: toldWaiting, failure: toldFailure, leftOut: toldLeftOut }
      : undefined,
    valueListsKnown: read.listsFetchedAt !== undefined,
    /** Whether pacing is steady although it was not configured so. */
    fallback: read.quota.pacing === "steady" && config.QUOTA_PACING === "auto",
    processes,
    /** Of the processes that are gone and have not said that they end, the one that was heard last. */
    lost: all.filter((one) => !processes.includes(one)).sort((a, b) => b.seenAt - a.seenAt)[0],
    /** RECONCILE_DIR; undefined when no process looks at one. */
    folder: folderAt(read.now, folders),
    tokenIssuedAt: issuedAt === undefined ? undefined : Date.parse(issuedAt),
  };
}

/**
 * As `takeReadings`, over a connection that only reads: no refused write tells it that its Redis is a replica by now.
 * @param redis connects again by itself, and finds the primary then
 */
export async function readingsOfPrimary(stores: Stores, redis: Redis): Promise<Readings> {
  const readings = await takeReadings(stores, redis);
  if (readings.redis.role !== "slave") return readings;
  redis.disconnect(true);
  try {
    await once(redis, "ready", { signal: AbortSignal.timeout(REDIS_DEADLINE_MS / 2) });
    return await takeReadings(stores, redis);
  } catch {
    return readings;
  }
}

/** A setting of the processes that send: a command may have been started with other variables. */
const settingIn = (
  processes: readonly RunningProcess[],
  name: "EMPTY_LIMIT" | "TERMINATE_LIMIT",
): string | number | undefined => processes.flatMap(({ settings }) => settings?.[name] ?? []).at(0);

/** All that is read from Redis: one round trip, one moment. */
function readAll(stores: Stores, redis: Redis) {
  const { deadLetters, inbox, keys, sources, thinEvents } = stores;
  return readTogether(redis, {
    now: nowReading,
    /** How far Redis' clock was set last, and when that was found. */
    clockStep: clockStepReading(keys),
    inbox: queueReading(inbox.queue),
    line: stores.line.counts(),
    fetch: queueReading(thinEvents.queue),
    held: stores.heldTerminations.count(),
    heldSince: stores.heldTerminations.since(),
    countedTerminations: stores.terminationGuard.counted(),
    activeRelations: stores.terminationGuard.active(),
    /** Fields that updates of the last hour have emptied. */
    emptied: stores.emptyingGuard.counted(),
    deadLetters: deadLetters.countReading(),
    /** Reason → number of dead letters. */
    deadReasons: deadLetters.reasons(),
    expiring: stores.deadLetterExpiry.reading(),
    denial: stores.denial.reading(),
    quota: stores.quotaState,
    /** Source → time of its newest event. */
    sources: sources.last(),
    /** Source → when it pauses. */
    sourcePauses: sources.pauses(),
    /** Source → by how much its clock was ahead when that was last seen. */
    clocksAhead: sources.clocksAhead(),
    /** Webhook → when its CRM reported last that it had lost changes, ms. */
    changesLost: sources.lost(),
    /** Webhook → when it dated a change before 2000 last, ms. */
    undated: sources.undated(),
    /** When the tenant's value lists were last fetched; undefined: never. */
    listsFetchedAt: stores.tenantLists.fetchedAtReading(),
    /** What the lists have lost. */
    listsLost: stores.tenantLists.lossesReading(),
    /** Relations that were sent without a value that the lists may allow by now, and are not fetched again. */
    listsMissed: stores.tenantLists.missedReading(),
    /** The older and the newer crmCode of records of the CRM that have two relations; the newest first. */
    doubles: stores.doubles.reading(),
    redis: healthReading,
    outage: stores.outage.reading(),
    warmUp: stores.ledger.warmUpReading(),
    /** Records of which the ledger has a row. */
    ledgerRows: stores.ledger.sizeReading(),
    /** What the last check of each CRM found. */
    crmChecks: stores.crmChecks.reading(),
    /** The CRMs that are asked for changes. */
    pulls: stores.pulls.states(),
    /** CRMs that do not return records: how many, and why, of the record that is tried next. */
    fetchFailures: thinEvents.failures(),
    all: stores.heartbeats.all(),
    /** When Redis was found to have gone backwards. */
    wentBackwardsAt: stores.stateAge.wentBackwardsAt(),
    /** What all processes counted within the last hour, by the minute. */
    minutes: stores.outcomes.reading(),
    /** How long the service took within the last 24 hours, by the hour. */
    hours: stores.durations.reading(),
    lostChanges: stores.line.lost(),
    lostChange: stores.line.someLost(),
    /** What is not sealed with the present key of STATE_KEY. */
    resealed: stores.resealing.reading(),
    /** Since when the oldest act waits for its line in an audit trail. */
    actWaitsSince: stores.auditActs.waitingSince(),
    auditHeads: stores.auditActs.headsReading(),
    /** What the last reconciliation found. */
    reconciliation: stores.reconciliations.last(),
    /** Comparisons whose plan was not begun, the newest of each kind of export. */
    openComparisons: stores.comparisons.withOpenPlan(),
    /** What the last comparison of each kind of export has found, and since when. */
    comparedExports: stores.differences.exports(),
    /** The plan that was begun last and is not finished, and whether a process carries one out now. */
    feeding: stores.reconciliations.feeding(),
    isFeeding: stores.reconciliations.isFeeding(),
    /** Acts that wait for a second person, or did lately. */
    approvals: stores.approvals.reading(),
    /** The pause of the lane bulk by an operator. */
    bulkPause: stores.bulkPauses.reading(),
    /** The last reconciliations that daemons began, by what began them. */
    reconcileRuns: stores.reconcileRuns.last(),
    /** When the next scheduled reconciliation is due, or was due and has not ended. */
    reconcileNextAt: stores.reconcileRuns.nextAt(),
    folders: stores.reconcileRuns.folders(),
    quality: stores.qualityRuns.schedule(),
    notificationsWaiting: stores.notifications.waiting(),
    notifyFailure: stores.notifications.failure(),
    toldWaiting: stores.told.waitingOutcomes(),
    toldFailure: stores.told.failure(),
    toldLeftOut: stores.told.leftOut(),
  });
}

/** What Redis answered in time. */
export interface TimelyReadings {
  /** Undefined when Redis did not answer. */
  readonly pingMs: number | undefined;
  /** Undefined also when Redis answers, and rejects the reading. */
  readonly readings: Readings | undefined;
}

/** @param onError called when Redis answers, and its state cannot be read all the same. */
export async function readingsInTime(
  stores: Stores,
  redis: Redis,
  onError: (error: unknown) => void,
): Promise<TimelyReadings> {
  const inTime = <T>(work: Promise<T>) => within(REDIS_DEADLINE_MS, work);
  const [ping, readings] = await Promise.allSettled([
    inTime(pingOf(redis)),
    inTime(readingsOfPrimary(stores, redis)),
  ]);
  const pingMs = ping.status === "fulfilled" ? ping.value : undefined;
  if (readings.status === "fulfilled") return { pingMs, readings: readings.value };
  if (pingMs !== undefined) onError(readings.reason);
  return { pingMs, readings: undefined };
}

export async function pingOf(redis: Redis): Promise<number> {
  const asked = performance.now();
  // PING itself is rejected while Redis rejects writes.
  await redis.time();
  return performance.now() - asked;
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
