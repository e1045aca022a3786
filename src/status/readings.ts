/** One reading of all shared state in Redis; every process reads the same. */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { QuotaState } from "../quota/quota.ts";
import type { Denial } from "../state/denial.ts";
import type { RunningProcess } from "../state/heartbeats.ts";
import type { WarmUp } from "../state/ledger.ts";
import type { OutageView } from "../state/outage.ts";
import { redisHealth, type RedisHealth } from "../state/redis-health.ts";
import type { ClockAhead } from "../state/sources.ts";
import type { Lane } from "../sync/lane.ts";
import type { Stores } from "./stores.ts";

/** A scrape must not wait longer for Redis, ms. */
const DEADLINE_MS = 2000;

export const QUEUE_STATES = ["wait", "prioritized", "active", "delayed", "failed"] as const;

/** State of jobs → how many. */
export type JobCounts = Readonly<Record<string, number>>;

/** Times in ms. */
export interface Readings {
  readonly now: number;
  readonly inboxJobs: JobCounts;
  readonly syncJobs: JobCounts;
  readonly fetchJobs: JobCounts;
  /** Time of the oldest change of each lane that is not on the service. */
  readonly oldest: Readonly<Record<Lane, number | undefined>>;
  readonly unsynced: Readonly<Record<Lane, number>>;
  readonly deadLetters: number;
  readonly denial: Denial | undefined;
  readonly quota: QuotaState;
  /** Source → time of its newest event. */
  readonly sources: Readonly<Record<string, number>>;
  /** Source → by how much its clock was ahead when that was last seen. */
  readonly clocksAhead: Readonly<Record<string, ClockAhead>>;
  /** Whether the tenant's value lists are known. */
  readonly valueListsKnown: boolean;
  readonly redis: RedisHealth;
  readonly outage: OutageView | undefined;
  readonly warmUp: WarmUp;
  /** Queues that somebody has paused through BullMQ; crmsync itself never does. */
  readonly paused: readonly string[];
  /** Why the newest record that could not be fetched from its CRM was not. */
  readonly fetchFailure: { readonly crm: string; readonly why: string } | undefined;
  /** Whether pacing is steady although it was not configured so. */
  readonly fallback: boolean;
  /** When Redis was found to have gone backwards. */
  readonly wentBackwardsAt: number | undefined;
  readonly processes: readonly RunningProcess[];
  readonly tokenIssuedAt: number | undefined;
}

/** Undefined when Redis does not answer in time. */
export async function readingsInTime(stores: Stores): Promise<Readings | undefined> {
  if (stores.redis.status !== "ready") return undefined;
  const deadline = new Promise<undefined>((resolve) => {
    setTimeout(() => resolve(undefined), DEADLINE_MS).unref();
  });
  return Promise.race([takeReadings(stores), deadline]).catch(() => undefined);
}

export async function takeReadings(stores: Stores): Promise<Readings> {
  const { config, inbox, keys, pointers, redis, thinEvents } = stores;
  const now = Date.now();
  const issuedAt = config.SERVICE_TOKEN_ISSUED_AT;
  // All at once: the commands then share their round trips.
  const read = await allOf({
    inboxJobs: countJobs(inbox.queue),
    syncJobs: countJobs(pointers.queue),
    fetchJobs: countJobs(thinEvents.queue),
    oldestLive: oldestStaged(stores, "live"),
    oldestBulk: oldestStaged(stores, "bulk"),
    oldestInInbox: oldestJob(inbox.queue, redis),
    oldestToFetch: oldestJob(thinEvents.queue, redis),
    unsyncedLive: redis.zcard(keys.unsynced("live")),
    unsyncedBulk: redis.zcard(keys.unsynced("bulk")),
    deadLetters: stores.deadLetters.count(),
    denial: stores.denial.current(),
    quota: stores.quotaState(),
    sources: stores.sources.last(),
    clocksAhead: stores.sources.clocksAhead(),
    listsFetchedAt: stores.tenantLists.fetchedAt(),
    redis: redisHealth(redis),
    outage: stores.outage.current(),
    warmUp: stores.ledger.warmUp(),
    paused: pausedQueues(stores),
    fetchFailure: thinEvents.firstFailure(),
    processes: stores.heartbeats.running(now),
    wentBackwardsAt: stores.stateAge.wentBackwardsAt(),
  });
  const { oldestLive, oldestBulk, oldestInInbox, oldestToFetch, ...rest } = read;
  const { unsyncedLive, unsyncedBulk, listsFetchedAt, ...readings } = rest;
  return {
    ...readings,
    now,
    oldest: { live: earliest([oldestLive, oldestInInbox, oldestToFetch]), bulk: oldestBulk },
    unsynced: { live: unsyncedLive, bulk: unsyncedBulk },
    valueListsKnown: listsFetchedAt !== undefined,
    fallback: read.quota.pacing === "steady" && config.QUOTA_PACING === "auto",
    tokenIssuedAt: issuedAt === undefined ? undefined : Date.parse(issuedAt),
  };
}

/** Resolves every value of an object. */
async function allOf<T extends Readonly<Record<string, unknown>>>(
  promises: T,
): Promise<{ [K in keyof T]: Awaited<T[K]> }> {
  const values = await Promise.all(Object.values(promises));
  const entries = Object.keys(promises).map((name, index) => [name, values[index]]);
  return Object.fromEntries(entries) as { [K in keyof T]: Awaited<T[K]> };
}

/** The states are named one by one: without names, BullMQ calls those that wait "waiting". */
const countJobs = (queue: Queue): Promise<JobCounts> => queue.getJobCounts(...QUEUE_STATES);

export async function pausedQueues({ inbox, pointers, thinEvents }: Stores): Promise<string[]> {
  const queues = [inbox.queue, pointers.queue, thinEvents.queue];
  const paused = await Promise.all(queues.map((queue) => queue.isPaused()));
  return queues.flatMap(({ name }, index) => (paused[index] ? [name] : []));
}

async function oldestStaged({ redis, keys }: Stores, lane: Lane): Promise<number | undefined> {
  const [, score] = await redis.zrange(keys.unsynced(lane), "0", "0", "WITHSCORES");
  return score === undefined ? undefined : Number(score);
}

/** When the oldest unfinished job was added, active and delayed ones included. */
async function oldestJob(queue: Pick<Queue, "toKey">, redis: Redis): Promise<number | undefined> {
  const key = (name: string) => queue.toKey(name);
  // getWaiting() throws when the data of a foreign job is not JSON.
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
