/** Shared state as every process reads it from Redis; nothing here is this process's own. */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { INBOX_QUEUE } from "../event/inbox.ts";
import { QUEUE_STATES, type SharedState } from "../ops/metrics.ts";
import type { QuotaState } from "../quota/quota.ts";
import type { Denial } from "../state/denial.ts";
import type { OutageView } from "../state/outage.ts";
import type { WarmUp } from "../state/ledger.ts";
import { SYNC_QUEUE } from "../state/pointer-queue.ts";
import { FETCH_QUEUE } from "../state/thin-events.ts";
import type { RunningProcess } from "../state/heartbeats.ts";
import { durabilityProblems, redisHealth, type RedisHealth } from "../state/redis-health.ts";
import type { Lane } from "../sync/lane.ts";
import { drainedAt, stopsOf } from "./stops.ts";
import type { Stores } from "./stores.ts";

/** A scrape must not hang on a Redis that is away, ms. */
const DEADLINE_MS = 2000;

type Counts = Readonly<Record<string, number>>;

/** One look at everything shared. Times in ms. */
export interface Readings {
  readonly now: number;
  readonly inboxJobs: Counts;
  readonly syncJobs: Counts;
  readonly fetchJobs: Counts;
  /** When the oldest change of each lane that is not on the service happened. */
  readonly oldest: Readonly<Record<Lane, number | undefined>>;
  readonly unsynced: Readonly<Record<Lane, number>>;
  readonly deadLetters: number;
  readonly denial: Denial | undefined;
  readonly quota: QuotaState;
  readonly sources: Counts;
  readonly redis: RedisHealth;
  readonly outage: OutageView | undefined;
  readonly warmUp: WarmUp;
  /** Queues that somebody has paused by BullMQ's own means; crmsync never does. */
  readonly paused: readonly string[];
  /** Why the newest record that could not be fetched from its CRM was not. */
  readonly fetchTrouble: { readonly crm: string; readonly why: string } | undefined;
  /** Whether pacing is steady although it was not configured so. */
  readonly fallback: boolean;
  readonly processes: readonly RunningProcess[];
}

/** Undefined when Redis did not answer in time. */
export async function readSharedState(stored: Stores): Promise<SharedState | undefined> {
  const readings = await readingsInTime(stored);
  return readings && sharedState(readings, stored);
}

/** Undefined when Redis did not answer in time. */
export async function readingsInTime(stored: Stores): Promise<Readings | undefined> {
  if (stored.redis.status !== "ready") return undefined;
  const deadline = new Promise<undefined>((resolve) => {
    setTimeout(() => resolve(undefined), DEADLINE_MS).unref();
  });
  return Promise.race([takeReadings(stored), deadline]).catch(() => undefined);
}

export async function takeReadings(stored: Stores): Promise<Readings> {
  const { inbox, pointers, deadLetters, denial, redis, keys, sources, ledger, outage } = stored;
  const now = Date.now();
  const [inboxJobs, syncJobs, live, bulk, arrived, asked, liveCount, bulkCount] = await Promise.all(
    [
      // Named one by one: without names, those that wait come as "waiting".
      inbox.queue.getJobCounts(...QUEUE_STATES),
      pointers.queue.getJobCounts(...QUEUE_STATES),
      oldestStaged(stored, "live"),
      oldestStaged(stored, "bulk"),
      oldestJob(inbox.queue, redis),
      oldestJob(stored.thinEvents.queue, redis),
      redis.zcard(keys.unsynced("live")),
      redis.zcard(keys.unsynced("bulk")),
    ],
  );
  const quota = await stored.quotaState();
  return {
    now,
    inboxJobs,
    syncJobs,
    fetchJobs: await stored.thinEvents.queue.getJobCounts(...QUEUE_STATES),
    oldest: { live: earliest([live, arrived, asked]), bulk },
    unsynced: { live: liveCount, bulk: bulkCount },
    deadLetters: await deadLetters.count(),
    denial: await denial.current(),
    quota,
    sources: await sources.last(),
    redis: await redisHealth(redis),
    outage: await outage.current(),
    warmUp: await ledger.warmUp(),
    paused: await pausedQueues(stored),
    fetchTrouble: await stored.thinEvents.trouble(),
    fallback: quota.pacing === "steady" && stored.config.QUOTA_PACING === "auto",
    processes: await stored.heartbeats.running(now),
  };
}

export async function pausedQueues({ inbox, pointers, thinEvents }: Stores): Promise<string[]> {
  const queues = [inbox.queue, pointers.queue, thinEvents.queue];
  const paused = await Promise.all(queues.map((queue) => queue.isPaused()));
  return queues.flatMap(({ name }, index) => (paused[index] ? [name] : []));
}

async function oldestStaged(stored: Stores, lane: Lane): Promise<number | undefined> {
  const [, score] = await stored.redis.zrange(stored.keys.unsynced(lane), "0", "0", "WITHSCORES");
  return score === undefined ? undefined : Number(score);
}

/** When the oldest job was added that is not done; put off ones and those at work too. */
async function oldestJob(queue: Pick<Queue, "toKey">, redis: Redis): Promise<number | undefined> {
  const key = (name: string) => queue.toKey(name);
  // Not by getWaiting(), which throws when a foreign job's data is not JSON.
  const [waiting, active, [delayed], [prioritized]] = await Promise.all([
    redis.lindex(key("wait"), -1),
    redis.lindex(key("active"), -1),
    redis.zrange(key("delayed"), "0", "0"),
    redis.zrange(key("prioritized"), "0", "0"),
  ]);
  const times = [waiting, active, delayed, prioritized].map(async (id) => {
    const at = id && (await redis.hget(key(id), "timestamp"));
    return at ? Number(at) : undefined;
  });
  return earliest(await Promise.all(times));
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

function sharedState(readings: Readings, { config }: Stores): SharedState {
  const { now, oldest, quota, denial, redis, processes } = readings;
  const issuedAt = config.SERVICE_TOKEN_ISSUED_AT;
  const age = (at: number | undefined) => (at === undefined ? 0 : Math.max(0, (now - at) / 1000));
  const drained = drainedAt(readings);
  const playing = (role: string) => processes.filter(({ roles }) => roles.includes(role)).length;
  return {
    queueJobs: {
      [INBOX_QUEUE]: readings.inboxJobs,
      [SYNC_QUEUE]: readings.syncJobs,
      [FETCH_QUEUE]: readings.fetchJobs,
    },
    oldestUnsyncedAge: { live: age(oldest.live), bulk: age(oldest.bulk) },
    unsynced: readings.unsynced,
    deadLetters: readings.deadLetters,
    quotaLimit: quota.limit,
    quotaRemaining: quota.remaining,
    quotaReset: quota.resetAt / 1000,
    pacing: readings.fallback ? "fallback" : quota.pacing,
    backlogDrainedAt: drained === undefined ? undefined : drained / 1000,
    stopped: stopsOf(readings),
    authState: denial === undefined ? "ok" : `${denial.cause}_denied`,
    tokenIssuedAt: issuedAt === undefined ? undefined : Date.parse(issuedAt) / 1000,
    sources: Object.fromEntries(
      Object.entries(readings.sources).map(([name, at]) => [name, at / 1000]),
    ),
    redisDurable: durabilityProblems(redis).length === 0,
    redisUsedBytes: redis.usedBytes,
    redisLimitBytes: redis.limitBytes,
    processes: { http: playing("http"), intake: playing("intake"), sync: playing("sync") },
  };
}
