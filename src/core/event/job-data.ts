/**
 * The only reader of the data of BullMQ's jobs. BullMQ parses it with JSON.parse, which rounds an integer of
 * more than 15 digits: two ids become one, and two clients one relation. Only the text in Redis has all digits,
 * and no method of BullMQ returns it.
 */
import type { Job, Queue, JobType } from "bullmq";
import type { Redis } from "ioredis";
import { MAX_DEPTH, isDeeperThan, hasRounded } from "./crm-event.ts";
import { parseExactly, isJson } from "./exact-json.ts";
import { redisWrite } from "../../base/redis-script.ts";

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

/** BullMQ does not check the time of a job. The years 2015 to 9999: BullMQ is no older, and no later date can be written. */
const EARLIEST_MS = Date.UTC(2015);
const LATEST_MS = 253_402_300_799_999;

/** @param job that BullMQ could read. @returns what it must be to be handled. */
export function jobFault({ timestamp }: Pick<Job, "timestamp">): string | undefined {
  return isJobTime(timestamp)
    ? undefined
    : "must be a job whose timestamp is the time in milliseconds since 1970";
}

/** When a job that cannot be handled counts as arrived, ms: its sender's clock may be ahead. */
export const arrivedAt = (timestamp: number | undefined, now: number): number =>
  timestamp !== undefined && isJobTime(timestamp) ? Math.min(timestamp, now) : now;

/** Whether it can be the time of a job, ms since 1970. */
export const isJobTime = (at: number): boolean =>
  Number.isInteger(at) && at >= EARLIEST_MS && at <= LATEST_MS;

/**
 * The states in which a BullMQ job holds its event. Each stands before the states that the job can reach
 * next, so that a job which moves while they are read in this order is not missed. The exception is a job
 * that a worker takes meanwhile: it becomes active after `active` was read. BullMQ 6 itself no longer knows
 * `paused`, where older clients put jobs; flows hold jobs back in `waiting-children`.
 */
export const JOB_STATES = [
  "active",
  "delayed",
  "waiting-children",
  "wait",
  "paused" as JobType,
  "prioritized",
  "failed",
] as const satisfies readonly JobType[];

/** Jobs read in one round trip. */
const CHUNK = 200;

/** The jobs in these states, the oldest of each first; a job that ends meanwhile may be missing. */
export async function* readJobs<Data>(
  queue: Queue<Data>,
  states: readonly JobType[],
): AsyncGenerator<Job<Data>> {
  const ids = await queue.getRanges([...states], 0, -1, true);
  for (let from = 0; from < ids.length; from += CHUNK) {
    yield* await readJobsOf(queue, ids.slice(from, from + CHUNK));
  }
}

/** @param ids of one round trip. */
export async function readJobsOf<Data>(
  queue: Queue<Data>,
  ids: readonly string[],
): Promise<Job<Data>[]> {
  const jobs = await Promise.all(ids.map((id) => readJob(queue, id)));
  return jobs.filter((job) => job !== undefined && job !== "unreadable");
}

/** @returns undefined for a job that is gone; `unreadable` for one that no worker can read: the sweep ends it. */
async function readJob<Data>(
  queue: Queue<Data>,
  id: string,
): Promise<Job<Data> | "unreadable" | undefined> {
  try {
    return await queue.getJob(id);
  } catch (error) {
    // Of JSON.parse, and of BullMQ where the JSON is no object. Redis' errors are others.
    if (error instanceof SyntaxError || error instanceof TypeError) return "unreadable";
    throw error;
  }
}

/** Jobs of one state that are looked at in one call. */
const STUCK_AT_ONCE = 500;

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

/** Reads the jobs that no worker will end, one at a time, because each may hold megabytes. */
export async function* stuckJobs(redis: Redis, queue: Queue): AsyncGenerator<StuckJob> {
  for (const state of ["active", "failed"] as const) {
    for (const id of await queue.getRanges([state], 0, STUCK_AT_ONCE - 1, true)) {
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

/**
 * Removes a job, also one that a worker has taken. BullMQ itself hands out for ever what it cannot parse, and removes
 * no job that has a lock, as this one has most of the time: the lock is the one key of BullMQ that is deleted here.
 */
export async function removeStuck(redis: Redis, queue: Queue, id: string): Promise<void> {
  await redisWrite(redis)("DEL", `${queue.toKey(id)}:lock`);
  await queue.remove(id);
}
