/** One reading of all shared state in Redis; every process reads the same. */
import type { Redis } from "ioredis";
import { mibLeft } from "../ops/data-dir.ts";
import { within } from "../ops/deadline.ts";
import { isRedisDirGone } from "../ops/embedded-redis.ts";
import { nowReading, reading, readTogether, type Reading } from "../ops/redis-reading.ts";
import type { QuotaState } from "../quota/quota.ts";
import type { Approval } from "../state/approvals.ts";
import type { BulkPause } from "../state/bulk-pause.ts";
import type { ExpiringLetters } from "../state/dead-letter-expiry.ts";
import type { Denial } from "../state/denial.ts";
import { runningAt, type RunningProcess } from "../state/heartbeats.ts";
import type { WarmUp } from "../state/ledger.ts";
import type { OutageView } from "../state/outage.ts";
import type { Slice } from "../state/outcomes.ts";
import type { DeliveryFailure } from "../state/message-queue.ts";
import { clockStepReading, type ClockStep } from "../state/redis-clock.ts";
import { healthReading, mayBeClosed, type RedisHealth } from "../state/redis-health.ts";
import {
  folderAt,
  type FolderView,
  type ReconcileRun,
  type RunSource,
} from "../state/reconcile-runs.ts";
import type { CrmChecksByName } from "../state/crm-checks.ts";
import type { PullStates } from "../state/pulls.ts";
import type { NotedComparison } from "../state/comparisons.ts";
import type { FetchFailure } from "../state/thin-events.ts";
import type { FeedingPlan, Reconciliation } from "../state/reconciliations.ts";
import type { Resealed } from "../state/reseal.ts";
import type { LineCounts } from "../state/line.ts";
import { mostRetried, type MostRetried } from "../state/retried-records.ts";
import type { ClockAhead } from "../state/sources.ts";
import type { Losses, MissedValues } from "../state/tenant-lists.ts";
import type { Lane } from "../event/lane.ts";
import { queueReading, type JobCounts } from "./queue-reading.ts";
import type { EmptiedField } from "../sync/emptied.ts";
import type { Stores } from "./stores.ts";

/** No reader waits longer for Redis, ms. */
export const REDIS_DEADLINE_MS = 2000;

/** The guard over terminations. */
export interface TerminationsView {
  /** Terminations that wait for a person, and since when the first of them. */
  readonly held: number;
  readonly heldSince: number | undefined;
  /** Relations terminated without approval that count now, and how many may; Infinity: any number. */
  readonly counted: number;
  readonly limit: number;
}

/** Times in ms, by Redis' clock. */
export interface Readings {
  readonly now: number;
  /** How long Redis took to answer, ms. */
  readonly pingMs: number;
  readonly inboxJobs: JobCounts;
  readonly syncJobs: JobCounts;
  readonly fetchJobs: JobCounts;
  /** Time of the oldest change of each lane that is not on the service. */
  readonly oldest: Readonly<Record<Lane, number | undefined>>;
  readonly unsynced: Readonly<Record<Lane, number>>;
  readonly terminations: TerminationsView;
  /** Fields that updates of the last hour have emptied, and how many relations may lose one of them; Infinity: any number. */
  readonly emptied: readonly EmptiedField[];
  readonly emptyLimit: number;
  readonly deadLetters: number;
  /** Reason → number of dead letters. */
  readonly deadReasons: Readonly<Record<string, number>>;
  readonly expiring: ExpiringLetters | undefined;
  readonly denial: Denial | undefined;
  readonly quota: QuotaState;
  /** Source → time of its newest event. */
  readonly sources: Readonly<Record<string, number>>;
  /** Source → by how much its clock was ahead when that was last seen. */
  readonly clocksAhead: Readonly<Record<string, ClockAhead>>;
  /** How far Redis' clock was set last, and when that was found. */
  readonly clockStep: ClockStep | undefined;
  /** Webhook → when its CRM reported last that it had lost changes, ms. */
  readonly changesLost: Readonly<Record<string, number>>;
  /** Whether the tenant's value lists are known. */
  readonly valueListsKnown: boolean;
  /** When they were last fetched; undefined: never. */
  readonly listsFetchedAt: number | undefined;
  /** What the lists have lost. */
  readonly listsLost: Losses;
  /** Field → how many relations were sent without a value of it, which its list lacks. */
  readonly sentWithout: Readonly<Record<string, number>>;
  /** Records that were sent without a value that the lists allow by now, and are not sent again by themselves. */
  readonly listsMissed: MissedValues | undefined;
  /** The older and the newer crmCode of records of the CRM that have two relations; the newest first. */
  readonly doubles: readonly (readonly [older: string, newer: string])[];
  readonly redis: RedisHealth;
  /** How much of its memory our keys take; undefined: not known, or Redis is not nearly full. */
  readonly ownBytes: number | undefined;
  /** Free space where the embedded Redis keeps its data, MiB; undefined: it is another one, or not known. */
  readonly dataDirMib: number | undefined;
  /** Whether the folder of the embedded Redis was removed while it runs. */
  readonly isRedisDirGone: boolean;
  readonly outage: OutageView | undefined;
  readonly warmUp: WarmUp;
  /** Records of which the ledger has a row. */
  readonly ledgerRows: number;
  /** When the last of the records and events of each lane is due that wait for another try; 0: none does. */
  readonly lastRetryAt: Readonly<Record<Lane, number>>;
  /** Events, of the 100 that are tried again next, that have failed three times or more. */
  readonly failingEvents: number;
  /** Queues that somebody has paused through BullMQ; crmsync itself never does. */
  readonly paused: readonly string[];
  /** Queues that somebody has limited through BullMQ, each with its limits. */
  readonly limited: readonly string[];
  /** What the last check of each CRM found. */
  readonly crmChecks: CrmChecksByName;
  /** The CRMs that are asked for changes. */
  readonly pulls: PullStates;
  /** CRMs that do not return records: how many, and why, of the record that is tried next. */
  readonly fetchFailures: readonly FetchFailure[];
  /** Whether pacing is steady although it was not configured so. */
  readonly fallback: boolean;
  /** When Redis was found to have gone backwards. */
  readonly wentBackwardsAt: number | undefined;
  readonly processes: readonly RunningProcess[];
  /** Of the processes that are gone and have not said that they end, the one that was heard last. */
  readonly lost: RunningProcess | undefined;
  readonly tokenIssuedAt: number | undefined;
  /** What all processes counted within the last hour, by the minute. */
  readonly minutes: readonly Slice[];
  /** How long the service took within the last 24 hours, by the hour. */
  readonly hours: readonly Slice[];
  /** The record that fails again and again, with the most tries. */
  readonly retried: MostRetried | undefined;
  /** What is not sealed with the present key of STATE_KEY. */
  readonly resealed: Resealed | undefined;
  /** Since when the oldest act waits for its line in an audit trail. */
  readonly actWaitsSince: number | undefined;
  /** What the last reconciliation found. */
  readonly reconciliation: Reconciliation | undefined;
  /** Comparisons whose plan was not begun, the newest of each kind of export. */
  readonly openComparisons: readonly NotedComparison[];
  /** The plan that was begun last and is not finished, and whether a process carries one out now. */
  readonly feeding: FeedingPlan | undefined;
  readonly isFeeding: boolean;
  /** The pause of the lane bulk by an operator. */
  readonly bulkPause: BulkPause | undefined;
  /** The last reconciliations that daemons began, by what began them. */
  readonly reconcileRuns: Readonly<Partial<Record<RunSource, ReconcileRun>>>;
  /** When the next scheduled reconciliation is due, or was due and has not ended. */
  readonly reconcileNextAt: number | undefined;
  /** Acts that wait for a second person, or did lately. */
  readonly approvals: readonly Approval[];
  /** RECONCILE_DIR; undefined when no process looks at one. */
  readonly folder: FolderView | undefined;
  /** Notifications that wait, and why they are not delivered. */
  readonly notifications: {
    readonly waiting: number;
    readonly failure: DeliveryFailure | undefined;
  };
  /** Outcomes that wait, why they are not told, and how many were left out within a day; undefined: none is told. */
  readonly told:
    | {
        readonly waiting: number;
        readonly failure: DeliveryFailure | undefined;
        readonly leftOut: number;
      }
    | undefined;
}

/** The line, in the words of a queue. */
const jobsIn = ({ due, inFlight, later }: LineCounts): JobCounts => ({
  wait: due.live + due.bulk,
  active: inFlight,
  delayed: later,
});

/** @param redis the connection to read over, if it is not that of the stores. */
export async function takeReadings(stores: Stores, redis: Redis = stores.redis): Promise<Readings> {
  const { config } = stores;
  const isEmbedded = config.REDIS_URL === undefined;
  const [pingMs, dataDirMib, isDirGone, read] = await Promise.all([
    pingOf(redis),
    isEmbedded ? mibLeft(config.DATA_DIR) : undefined,
    isEmbedded && isRedisDirGone(config.DATA_DIR),
    readAll(stores, redis),
  ]);
  const { all, inbox, line, fetch, oldestLive, oldestBulk, unsyncedLive, unsyncedBulk } = read;
  const { held, heldSince, countedTerminations } = read;
  const issuedAt = config.SERVICE_TOKEN_ISSUED_AT;
  const queues = Object.entries({
    [stores.inbox.queue.name]: inbox,
    [stores.thinEvents.queue.name]: fetch,
  });
  const processes = runningAt(read.now, all);
  const ownBytes = mayBeClosed(read.redis) ? await stores.ownMemory.bytes() : undefined;
  return {
    ...read,
    ownBytes,
    pingMs,
    dataDirMib,
    isRedisDirGone: isDirGone,
    inboxJobs: inbox.jobs,
    syncJobs: jobsIn(line),
    fetchJobs: fetch.jobs,
    lastRetryAt: line.lastDueAt,
    failingEvents: inbox.failing,
    paused: queues.flatMap(([name, { paused }]) => (paused ? [name] : [])),
    limited: queues.flatMap(([name, { limit }]) => (limit ? [`${name} to ${limit}`] : [])),
    oldest: { live: earliest([oldestLive, inbox.oldestAt, fetch.oldestAt]), bulk: oldestBulk },
    unsynced: { live: unsyncedLive, bulk: unsyncedBulk },
    terminations: {
      held,
      heldSince,
      counted: countedTerminations,
      limit: limitIn(processes, "TERMINATE_LIMIT", stores.terminationGuard.limit),
    },
    emptyLimit: limitIn(processes, "EMPTY_LIMIT", stores.emptyingGuard.limit),
    notifications: { waiting: read.notificationsWaiting, failure: read.notifyFailure },
    told: stores.told.isOn
      ? { waiting: read.toldWaiting, failure: read.toldFailure, leftOut: read.toldLeftOut }
      : undefined,
    valueListsKnown: read.listsFetchedAt !== undefined,
    fallback: read.quota.pacing === "steady" && config.QUOTA_PACING === "auto",
    processes,
    lost: all.filter((one) => !processes.includes(one)).sort((a, b) => b.seenAt - a.seenAt)[0],
    folder: folderAt(read.now, read.folders),
    tokenIssuedAt: issuedAt === undefined ? undefined : Date.parse(issuedAt),
  };
}

/** The limit of the processes that send: a command may have been started with other variables. */
function limitIn(
  processes: readonly RunningProcess[],
  name: "EMPTY_LIMIT" | "TERMINATE_LIMIT",
  own: number,
): number {
  const [told = own] = processes.flatMap(({ settings }) => settings?.[name] ?? []);
  return Number(told);
}

/** All that is read from Redis: one round trip, one moment. */
function readAll(stores: Stores, redis: Redis) {
  const { deadLetters, inbox, keys, sources, thinEvents } = stores;
  return readTogether(redis, {
    now: nowReading,
    clockStep: clockStepReading(keys),
    inbox: queueReading(inbox.queue),
    line: stores.line.counts(),
    fetch: queueReading(thinEvents.queue),
    oldestLive: oldestIn(keys.unsynced("live")),
    oldestBulk: oldestIn(keys.unsynced("bulk")),
    unsyncedLive: sizeOf(keys.unsynced("live")),
    unsyncedBulk: sizeOf(keys.unsynced("bulk")),
    held: stores.heldTerminations.count(),
    heldSince: stores.heldTerminations.since(),
    countedTerminations: stores.terminationGuard.counted(),
    emptied: stores.emptyingGuard.counted(),
    deadLetters: deadLetters.countReading(),
    deadReasons: deadLetters.reasons(),
    expiring: stores.deadLetterExpiry.reading(),
    denial: stores.denial.reading(),
    quota: stores.quotaState,
    sources: sources.last(),
    clocksAhead: sources.clocksAhead(),
    changesLost: sources.lost(),
    listsFetchedAt: stores.tenantLists.fetchedAtReading(),
    listsLost: stores.tenantLists.lossesReading(),
    sentWithout: stores.staged.leftOut.countsReading(),
    listsMissed: stores.tenantLists.missedReading(),
    doubles: stores.doubles.reading(),
    redis: healthReading,
    outage: stores.outage.reading(),
    warmUp: stores.ledger.warmUpReading(),
    ledgerRows: stores.ledger.sizeReading(),
    crmChecks: stores.crmChecks.reading(),
    pulls: stores.pulls.states(),
    fetchFailures: thinEvents.failures(),
    all: stores.heartbeats.all(),
    wentBackwardsAt: stores.stateAge.wentBackwardsAt(),
    minutes: stores.outcomes.reading(),
    hours: stores.durations.reading(),
    retried: mostRetried(keys),
    resealed: stores.resealing.reading(),
    actWaitsSince: stores.auditActs.waitingSince(),
    reconciliation: stores.reconciliations.last(),
    openComparisons: stores.comparisons.withOpenPlan(),
    feeding: stores.reconciliations.feeding(),
    isFeeding: stores.reconciliations.isFeeding(),
    approvals: stores.approvals.reading(),
    bulkPause: stores.bulkPauses.reading(),
    reconcileRuns: stores.reconcileRuns.last(),
    reconcileNextAt: stores.reconcileRuns.nextAt(),
    folders: stores.reconcileRuns.folders(),
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
    inTime(takeReadings(stores, redis)),
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

const oldestIn = (key: string): Reading<number | undefined> =>
  reading(["zrange", key, 0, 0, "WITHSCORES"], ([, score]: string[]) =>
    score === undefined ? undefined : Number(score),
  );

const sizeOf = (key: string): Reading<number> => reading(["zcard", key], Number);

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
