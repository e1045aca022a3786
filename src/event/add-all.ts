import type { Job, Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";

/** BullMQ writes each step of a job to a stream. Only people look at it, with tools that read its end. */
export const SHORT_STREAMS = { events: { maxLen: 100 } };

/** Where a queue keeps the length of its stream: the client that was opened last has set it. */
const LENGTH_FIELD = "opts.maxLenEvents";

/** Sets the length again if another client has set its own, and cuts the stream. */
export async function keepStreamShort(redis: Redis, queue: Queue): Promise<void> {
  const { maxLen } = SHORT_STREAMS.events;
  const meta = queue.toKey("meta");
  const length = await redis.hget(meta, LENGTH_FIELD);
  if (length === null || Number(length) === maxLen) return;
  await redisWrite(redis)("HSET", meta, LENGTH_FIELD, maxLen);
  await redis.xtrim(queue.toKey("events"), "MAXLEN", "~", maxLen);
}

type Jobs = Parameters<Queue["addBulk"]>[0];

/**
 * Adds jobs, all or none. A single job needs no transaction; BullMQ's transactions copy every
 * command and script of the client, which made most of the garbage at 500 events a second.
 * @returns their ids; for a duplicate, the id of the job that waits already.
 */
export async function addAll(queue: Queue, jobs: Jobs): Promise<(string | undefined)[]> {
  const [only, ...others] = jobs;
  if (only === undefined) return [];
  const added: Job[] =
    others.length > 0
      ? await queue.addBulk(jobs)
      : [await queue.add(only.name, only.data, only.opts)];
  return added.map(({ id }) => id);
}
