/** Jobs that no worker will end. They are read and removed without BullMQ, which may fail on them. */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisWrites } from "../ops/redis-script.ts";
import { unreadable } from "./job-fault.ts";

/** Jobs of one state that are looked at in one call. */
const CHUNK = 500;

const LISTS = ["wait", "active", "paused"];
const SORTED_SETS = ["delayed", "prioritized", "failed", "completed", "waiting-children"];

export interface StuckJob {
  readonly id: string;
  /** As it lies in Redis. */
  readonly data: string;
  /** When it was added, ms; not a number where the job does not say. */
  readonly timestamp: number;
  /** Why no worker can read it; undefined where its workers died again and again. */
  readonly fault: string | undefined;
  readonly failedReason: string;
}

/** Reads stuck jobs one at a time, because each may hold megabytes. */
export async function* stuckJobs(redis: Redis, queue: Queue): AsyncGenerator<StuckJob> {
  const [active, failed] = await Promise.all([
    redis.lrange(queue.toKey("active"), 0, CHUNK - 1),
    redis.zrange(queue.toKey("failed"), "0", String(CHUNK - 1)),
  ]);
  const read = async (id: string): Promise<StuckJob> => {
    const job = await redis.hgetall(queue.toKey(id));
    // The job has ended since, or only its id was left behind: there is nothing to keep.
    if (Object.keys(job).length === 0) await redis.lrem(queue.toKey("active"), 0, id);
    const { data = "{}", failedReason = "no reason given" } = job;
    return { id, data, timestamp: Number(job["timestamp"]), fault: unreadable(job), failedReason };
  };
  for (const id of active) {
    const job = await read(id);
    if (job.fault !== undefined) yield job;
  }
  for (const id of failed) yield await read(id);
}

/** Removes a job from every state, and all that BullMQ keeps of it. */
export async function removeJob(redis: Redis, queue: Queue, id: string): Promise<void> {
  const key = queue.toKey(id);
  const deduplication = queue.toKey(`de:${(await redis.hget(key, "deid")) ?? ""}`);
  // Otherwise the same event, sent again, would count as a duplicate of this job.
  const isOwn = (await redis.get(deduplication)) === id;
  await redisWrites(redis)([
    ...(isOwn ? ([["DEL", deduplication]] as const) : []),
    ...LISTS.map((list) => ["LREM", queue.toKey(list), 0, id] as const),
    ...SORTED_SETS.map((set) => ["ZREM", queue.toKey(set), id] as const),
    ["SREM", queue.toKey("stalled"), id],
    ...[key, `${key}:lock`, `${key}:logs`].map((own) => ["DEL", own] as const),
  ]);
}
