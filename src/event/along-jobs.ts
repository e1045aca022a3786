/**
 * Jobs that a worker of the inbox takes along with the one that BullMQ has given it: taking and ending
 * many in one call costs a fifth of what BullMQ's own scripts need for each. Only plain jobs are taken
 * along; locks, stalled jobs and retries stay BullMQ's (docs/adr/0032).
 */
import { Job, type Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { unreadable } from "./job-fault.ts";

type Taken = [
  id: string,
  name: string,
  data: string,
  opts: string,
  timestamp: string,
  starts: number,
];

export interface AlongLimits {
  readonly lockMs: number;
  readonly jobs: number;
  /** Bytes that the data of the jobs may have together; a job with more is taken alone. */
  readonly bytes: number;
}

export class AlongJobs {
  readonly #queue: Queue;
  readonly #take: RedisScript<Taken[]>;
  readonly #end: RedisScript<string[]>;

  constructor(redis: Redis, queue: Queue) {
    this.#queue = queue;
    this.#take = redisScript(redis, new URL("./lua/take-along.lua", import.meta.url));
    this.#end = redisScript(redis, new URL("./lua/end-along.lua", import.meta.url));
  }

  /**
   * Takes jobs that wait; each is locked with this token. A job that cannot be parsed is not returned and
   * stays active, as if BullMQ had taken it: the sweep rejects it (stuck-jobs.ts).
   */
  async take(token: string, { bytes, jobs, lockMs }: AlongLimits): Promise<Job[]> {
    const keys = ["wait", "active", "meta"].map((name) => this.#queue.toKey(name));
    const startedAt = Date.now();
    const args = [this.#queue.toKey(""), token, lockMs, startedAt, jobs, bytes];
    const taken = await this.#take(keys, args);
    return taken.flatMap((job) => this.#jobOf(job, startedAt) ?? []);
  }

  /** Ends jobs that were taken along. @throws when Redis or BullMQ does not end one of them. */
  async end(jobs: readonly Job[], token: string): Promise<void> {
    if (jobs.length === 0) return;
    const keys = ["active", "stalled", "events", "meta"].map((name) => this.#queue.toKey(name));
    const ids = jobs.map(({ id = "" }) => id);
    const left = new Set(await this.#end(keys, [this.#queue.toKey(""), token, ...ids]));
    if (left.size === 0) return;
    const others = jobs.filter(({ id = "" }) => left.has(id));
    await Promise.all(others.map((job) => job.moveToCompleted(undefined, token, false)));
  }

  #jobOf([id, name, data, opts, timestamp, starts]: Taken, processedOn: number): Job | undefined {
    if (unreadable({ opts }) !== undefined) return undefined;
    try {
      return Job.fromJSON(
        this.#queue,
        {
          id,
          name,
          data,
          // Intake gives every job its own options; nothing of an event is kept once it has ended.
          opts: { removeOnComplete: true, delay: delayIn(opts) },
          timestamp: Number(timestamp),
          processedOn,
          progress: 0,
          attemptsMade: 0,
          attemptsStarted: starts,
          stacktrace: "[]",
          stalledCounter: 0,
          failedReason: "",
          returnvalue: "null",
        },
        id,
      );
    } catch {
      // Its data is not JSON.
      return undefined;
    }
  }
}

/** For how long its sender has delayed it, ms. */
function delayIn(opts: string): number {
  return opts.includes('"delay"')
    ? Number((JSON.parse(opts) as { delay?: unknown }).delay ?? 0)
    : 0;
}
