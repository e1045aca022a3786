/**
 * The only reader of the data of BullMQ's jobs. BullMQ parses it with JSON.parse, which rounds an integer of
 * more than 15 digits: two ids become one, and two clients one relation. Only the text in Redis has all digits,
 * and no method of BullMQ returns it.
 */
import type { Job, Queue } from "bullmq";
import type { Redis } from "ioredis";
import { MAX_DEPTH } from "./crm-event.ts";
import { isDeeperThan } from "./depth.ts";
import { parseExactly } from "./exact-json.ts";
import { hasRounded } from "./ill-formed.ts";

type JobInQueue = Pick<Job, "id" | "data">;

/** The data as its sender has written it; null when the job is gone, or has none. */
export const dataText = (redis: Redis, queue: Queue, id = ""): Promise<string | null> =>
  redis.hget(queue.toKey(id), "data");

/** What a job carries, with all digits of its numbers. */
export async function exactData(redis: Redis, queue: Queue, job: JobInQueue): Promise<unknown> {
  const data: unknown = job.data;
  if (!isDeeperThan(MAX_DEPTH, data) && !hasRounded(data)) return data;
  const text = await dataText(redis, queue, job.id);
  return text === null ? data : parseExactly(text);
}

/** What a job carries, as BullMQ has parsed it: only for jobs of our own, which carry texts and no numbers. */
export const ownData = (job: Pick<Job, "data">): unknown => job.data;
