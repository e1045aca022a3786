/**
 * Jobs that no worker will end. Such an event becomes a dead letter, and its job is removed. BullMQ itself hands out
 * for ever what it cannot parse, and removes no job that has a lock, as this one has most of the time: the lock is
 * the one key of BullMQ that is deleted here.
 */
import type { Job, Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import { dataText } from "./job-data.ts";
import { isJson } from "./json-fault.ts";
import { readJob } from "./read-jobs.ts";

/** Jobs of one state that are looked at in one call. */
const CHUNK = 500;

/** How often BullMQ takes back a job whose worker died before it gives the job up. */
export const MAX_STALLED = 5;

const NOT_JSON = "must be one CloudEvent as JSON; the data of this job is not JSON";
const UNREADABLE =
  "must be a job that BullMQ can read: its options, progress or parent are not JSON";

export interface StuckJob {
  readonly id: string;
  /** As it lies in Redis. */
  readonly data: string;
  /** When it was added, ms; undefined where that cannot be read. */
  readonly timestamp: number | undefined;
  /** Why no worker can read it; undefined where its workers died again and again. */
  readonly fault: string | undefined;
  readonly failedReason: string;
}

/** Reads stuck jobs one at a time, because each may hold megabytes. */
export async function* stuckJobs(redis: Redis, queue: Queue): AsyncGenerator<StuckJob> {
  for (const state of ["active", "failed"] as const) {
    for (const id of await queue.getRanges([state], 0, CHUNK - 1, true)) {
      const job = await readJob(queue, id);
      if (job === undefined || (state === "active" && !isGivenUp(job))) continue;
      const data = (await dataText(redis, queue, id)) ?? "{}";
      yield { id, data, ...(job === "unreadable" ? unreadable(data) : died(job)) };
    }
  }
}

/** Whether no worker can end it: BullMQ has given it up, and could not let it fail. */
const isGivenUp = (job: Job | "unreadable"): boolean =>
  job === "unreadable" || job.stalledCounter > MAX_STALLED + 1;

function unreadable(data: string): Omit<StuckJob, "id" | "data"> {
  return {
    timestamp: undefined,
    fault: isJson(data) ? UNREADABLE : NOT_JSON,
    failedReason: "it cannot be read",
  };
}

const died = ({ failedReason, timestamp }: Job): Omit<StuckJob, "id" | "data"> => ({
  timestamp,
  fault: undefined,
  failedReason: failedReason ?? "no reason given",
});

/** Removes a job, also one that a worker has taken. */
export async function removeStuck(redis: Redis, queue: Queue, id: string): Promise<void> {
  await redisWrite(redis)("DEL", `${queue.toKey(id)}:lock`);
  await queue.remove(id);
}
