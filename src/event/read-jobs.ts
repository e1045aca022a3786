/** Reads the jobs of a queue, without those that another client has written so that BullMQ fails on them. */
import type { Job, JobType, Queue } from "bullmq";
import type { Redis } from "ioredis";
import { unreadable } from "./job-fault.ts";

/** Jobs read in one round trip. */
const CHUNK = 200;

/** The jobs in these states, the oldest of each first; a job that ends meanwhile may be missing. */
export async function* readJobs<Data>(
  queue: Queue<Data>,
  redis: Redis,
  states: readonly JobType[],
): AsyncGenerator<Job<Data>> {
  const ids = await queue.getRanges([...states], 0, -1, true);
  for (let from = 0; from < ids.length; from += CHUNK) {
    yield* await readJobsOf(queue, redis, ids.slice(from, from + CHUNK));
  }
}

/** @param ids of one round trip. */
export async function readJobsOf<Data>(
  queue: Queue<Data>,
  redis: Redis,
  ids: readonly string[],
): Promise<Job<Data>[]> {
  const jobs = await Promise.all(ids.map((id) => readJob(queue, redis, id)));
  return jobs.filter((job) => job !== undefined);
}

/** @returns undefined for a job that is gone, or that no worker can read: the sweep ends it. */
async function readJob<Data>(
  queue: Queue<Data>,
  redis: Redis,
  id: string,
): Promise<Job<Data> | undefined> {
  try {
    return await queue.getJob(id);
  } catch (error) {
    if (unreadable(await redis.hgetall(queue.toKey(id))) !== undefined) return undefined;
    throw error;
  }
}
