/**
 * The queue of pointer jobs. A job carries only the crmCode of its record; the newest state lies
 * beside it, so a job never carries an old state.
 *
 * The queue holds the jobs of the records that come next (pointer-job.ts). Other records wait in `unsynced`
 * alone. Such a record gets its job when few jobs are left, or when the order of service chooses it.
 */
import { ErrorCode, type Job, type Queue, type QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { openQueue } from "../event/open-queue.ts";
import { removeJob, stuckJobs } from "../event/stuck-jobs.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import type { Keys } from "./keys.ts";
import { MissingJobs } from "./missing-jobs.ts";
import {
  BULK_PRIORITY,
  BULK_RETRY_PRIORITY,
  FIRST_BULK_SCORE,
  LIVE_PRIORITY,
  pointerId,
  stepOf,
  type PointerStep,
} from "./pointer-job.ts";

export const SYNC_QUEUE = "sync";

/**
 * A job's hash needs a third of the memory while no value is longer than 64 bytes, and BullMQ writes the
 * options as one value of JSON. So `attempts: undefined` leaves out BullMQ's default, 0, and no option says
 * that a job that has ended is removed: the sync worker removes it.
 */
const SHORT_OPTIONS = { attempts: undefined } as object;

/** BullMQ scores a delayed job by its time in ms × 4096, plus a running number. */
const SCORE_PER_MS = 4096;

/** Jobs that are removed at once: Redis carries out these commands before it serves other connections. */
const REMOVED_AT_ONCE = 50;

/** In an outage, a fit record is looked for among this many records of the lane bulk. */
const BULK_LOOKS = 100;

/** A record that runs is not looked at again before this, ms. */
const RUNNING_MS = 1000;

/** What became of the job that should come first. */
export type Brought =
  | { readonly kind: "first" }
  /** The job runs now, or its retry is not due. */
  | { readonly kind: "later"; readonly afterMs: number }
  | { readonly kind: "gone" };

export interface Pointer {
  readonly crmCode: string;
}

/** A job that waits, and the key of its lock: the worker that gets the job has its token there. */
export interface FirstJob extends Pointer {
  readonly lockKey: string;
}

interface PointerQueueOptions extends Pick<QueueOptions, "telemetry"> {
  /** Sorted set of live records in the order of service; by default, in the order of their arrival. */
  readonly liveOrder?: string;
}

export class PointerQueue {
  readonly queue: Queue<Pointer>;
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #liveOrder: string;
  readonly #missing: MissingJobs;
  readonly #misplaced: RedisScript<[string[], string[], string[]]>;
  readonly #due: RedisScript<[number, number, number, number]>;
  readonly #first: RedisScript<[id: string, data: string] | null>;
  readonly #bringForward: RedisScript<["gone" | "first" | "running" | "delayed", ...string[]]>;

  constructor(
    redis: Redis,
    prefix: string,
    keys: Keys,
    { liveOrder = keys.unsynced("live"), ...tracing }: PointerQueueOptions = {},
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.#liveOrder = liveOrder;
    this.queue = openQueue(SYNC_QUEUE, redis, { ...tracing, prefix });
    this.#misplaced = redisScript(redis, new URL("./lua/misplaced-jobs.lua", import.meta.url));
    this.#first = redisScript(redis, new URL("./lua/first-job.lua", import.meta.url));
    this.#due = redisScript(redis, new URL("./lua/due.lua", import.meta.url));
    this.#bringForward = redisScript(redis, new URL("./lua/bring-forward.lua", import.meta.url));
    this.#missing = new MissingJobs(redis, keys, this.queue, liveOrder);
  }

  get step(): PointerStep {
    return stepOf(this.queue, this.#keys);
  }

  /**
   * Adds the jobs of records that were staged without their jobs, as far as there is room. A record that has
   * a job gets no second one; if that job runs, `restore` adds the next one when it ends.
   */
  async add(pointers: readonly { readonly crmCode: string; readonly lane: Lane }[]): Promise<void> {
    const room = await this.#missing.room();
    const next = LANES.flatMap((lane) =>
      pointers.filter((pointer) => pointer.lane === lane).slice(0, Math.max(0, room[lane])),
    );
    // Not BullMQ's addBulk: it is a transaction, and a full Redis refuses those. What a crash leaves out
    // is added by `due`.
    await Promise.all(
      next.map(({ crmCode, lane }) =>
        this.queue.add(
          "sync",
          { crmCode },
          {
            ...SHORT_OPTIONS,
            jobId: pointerId(crmCode),
            priority: lane === "bulk" ? BULK_PRIORITY : LIVE_PRIORITY,
          },
        ),
      ),
    );
    const urgent = pointers.some(({ lane }) => lane === "live");
    await this.#redis.publish(this.#keys.jobsAdded, urgent ? "live" : "bulk");
  }

  /**
   * Adds the job of a record that waits without one. A live record gets its job also where there
   * is no room: it is served now, or its state was staged while an older job ran. A bulk record
   * gets one only while few wait.
   * @returns whether a job was added
   */
  async restore(crmCode: string): Promise<boolean> {
    return (await this.#missing.add([crmCode], 1)) === 1;
  }

  /**
   * Adds the jobs that these live records lack, while few jobs wait. While many wait,
   * `due` adds these jobs later.
   * @returns how many were added
   */
  restoreLost(crmCodes: readonly string[]): Promise<number> {
    return this.#missing.addIfFew(crmCodes);
  }

  /**
   * Moves the job of a record with a live change before all bulk jobs, and ends its wait for the
   * retry of an older state. Does nothing to a job that runs or waits in the lane live.
   */
  async expedite(crmCode: string): Promise<void> {
    const job = await this.#jobOf(crmCode);
    // A record without a job has a place in the order of service, and gets its job when its turn is near.
    if (job !== undefined && this.isBulk(job)) {
      await job.changePriority({ priority: LIVE_PRIORITY }).catch(ignoreGone);
    }
    if (await job?.isDelayed()) await job?.promote().catch(ignoreNotDelayed);
    await this.#redis.publish(this.#keys.jobsAdded, "live");
  }

  /** Ends the wait of a record for its retry. Its lane stays. */
  async retryNow(crmCode: string): Promise<void> {
    const job = await this.#jobOf(crmCode);
    if (job === undefined || !(await job.isDelayed())) return;
    await job.promote().catch(ignoreNotDelayed);
    await this.#redis.publish(this.#keys.jobsAdded, "live");
  }

  /** The record whose retry is due next, if one waits. */
  nextRetry(): Promise<readonly string[]> {
    return this.#delayed(0, 0);
  }

  /** At most `count` records whose retries are due last: the first ones may wait for a late request. */
  lastRetries(count: number): Promise<readonly string[]> {
    return this.#delayed(-count, -1);
  }

  async #delayed(from: number, to: number): Promise<readonly string[]> {
    const jobs = await this.queue.getDelayed(from, to);
    // Another client may have added jobs of another kind, and a job may have been removed meanwhile.
    return jobs.flatMap((job) => (isPointer(job?.data) ? [job.data.crmCode] : []));
  }

  /** How many records wait for a retry. */
  retries(): Promise<number> {
    return this.queue.getDelayedCount();
  }

  /** Puts the job of a record before all other jobs, if it waits or its retry is due. */
  async bringForward(crmCode: string): Promise<Brought> {
    const lists = ["wait", "prioritized", "delayed", "active"].map((name) =>
      this.queue.toKey(name),
    );
    const id = pointerId(crmCode);
    const [found, score] = await this.#bringForward([this.queue.toKey(id), ...lists], [id]);
    switch (found) {
      case "gone":
      case "first":
        return { kind: found };
      case "running":
        return { kind: "later", afterMs: RUNNING_MS };
      case "delayed": {
        const afterMs = Math.floor(Number(score) / SCORE_PER_MS) - Date.now();
        if (afterMs > 0) return { kind: "later", afterMs };
        const job = await this.queue.getJob(id);
        await job?.promote().catch(ignoreNotDelayed);
        return this.bringForward(crmCode);
      }
    }
  }

  /**
   * Puts the job of a record of the lane bulk, chosen by chance, before the others of its lane.
   * @param unfit records that are not chosen
   */
  async bringBulkForward(unfit: ReadonlySet<string>): Promise<void> {
    const some = await this.#redis.zrandmember(this.#keys.unsynced("bulk"), BULK_LOOKS);
    const prioritized = this.queue.toKey("prioritized");
    for (const crmCode of some.filter((code) => !unfit.has(code))) {
      await this.#missing.add([crmCode], 1, Number.MAX_SAFE_INTEGER);
      // LT leaves the job of a live change where it is: such a change may have come meanwhile.
      const job = [FIRST_BULK_SCORE, pointerId(crmCode)] as const;
      if ((await this.#redis.zadd(prioritized, "XX", "LT", "CH", ...job)) === 1) return;
    }
  }

  /** The pointer job of the lane live that BullMQ hands out next, if there is one. */
  async first(): Promise<FirstJob | undefined> {
    const found = await this.#first(
      [this.queue.toKey("wait"), this.queue.toKey("prioritized")],
      [this.queue.toKey(""), FIRST_BULK_SCORE],
    );
    if (found === null) return undefined;
    const [id, text] = found;
    const data = parsed(text);
    return isPointer(data) ? { lockKey: `${this.queue.toKey(id)}:lock`, ...data } : undefined;
  }

  /** When the job of a record is due, ms (undefined: it may run now); undefined without a job. */
  async waitOf(crmCode: string): Promise<{ readonly dueAt: number | undefined } | undefined> {
    const job = await this.#jobOf(crmCode);
    if (job === undefined) return undefined;
    return { dueAt: (await this.#dueAt(job)) || undefined };
  }

  /** How many bulk changes go before that of a record; undefined when it has none that waits. */
  async bulkAhead(crmCode: string): Promise<number | undefined> {
    const key = this.queue.toKey("prioritized");
    const score = await this.#redis.zscore(key, pointerId(crmCode));
    if (score !== null && Number(score) >= FIRST_BULK_SCORE) {
      return this.#redis.zcount(key, FIRST_BULK_SCORE, `(${score}`);
    }
    if (await this.hasJob(crmCode)) return undefined;
    return (await this.#redis.zrank(this.#keys.unsynced("bulk"), crmCode)) ?? undefined;
  }

  /** Whether a record has a job. */
  async hasJob(crmCode: string): Promise<boolean> {
    return (await this.#redis.exists(this.#keyOf(crmCode))) === 1;
  }

  /** Removes the job of a record, unless it runs. */
  async remove(crmCode: string): Promise<void> {
    await this.queue.remove(pointerId(crmCode));
  }

  /** Removes the jobs of these records, except those that run. */
  async removeAll(crmCodes: readonly string[]): Promise<void> {
    const without = new Set((await this.misplaced(crmCodes)).withoutJob);
    const ids = crmCodes.filter((crmCode) => !without.has(crmCode)).map(pointerId);
    for (let from = 0; from < ids.length; from += REMOVED_AT_ONCE) {
      const some = ids.slice(from, from + REMOVED_AT_ONCE);
      await Promise.all(some.map((id) => this.queue.remove(id, { removeChildren: false })));
    }
  }

  #keyOf(crmCode: string): string {
    return this.queue.toKey(pointerId(crmCode));
  }

  #jobOf(crmCode: string): Promise<Job<Pointer> | undefined> {
    return this.queue.getJob(pointerId(crmCode));
  }

  /** When a delayed job is due; 0 when it is not delayed any more. */
  async #dueAt({ id = "" }: Job): Promise<number> {
    const score = await this.#redis.zscore(this.queue.toKey("delayed"), id);
    return Math.floor(Number(score ?? 0) / SCORE_PER_MS);
  }

  /**
   * Lets the retry of a bulk record go before the other bulk jobs, as it did before it failed. A live change
   * may have come meanwhile: its job stays live.
   */
  async retryBeforeBulk(crmCode: string): Promise<void> {
    const job = await this.#jobOf(crmCode);
    if (job?.priority !== BULK_PRIORITY) return;
    await job.changePriority({ priority: BULK_RETRY_PRIORITY }).catch(ignoreGone);
  }

  /** The records among these that have no job, a job that has ended, or one of the lane bulk. */
  async misplaced(
    crmCodes: readonly string[],
  ): Promise<Readonly<Record<"withoutJob" | "ended" | "inBulk", readonly string[]>>> {
    if (crmCodes.length === 0) return { withoutJob: [], ended: [], inBulk: [] };
    const keys = crmCodes.map((crmCode) => this.#keyOf(crmCode));
    const args = [LIVE_PRIORITY, ...crmCodes];
    const [withoutJob, ended, inBulk] = await this.#misplaced(keys, args);
    return { withoutJob, ended, inBulk };
  }

  /** Whether a job is in the lane bulk. */
  isBulk({ priority }: Job): boolean {
    return priority > LIVE_PRIORITY;
  }

  /** Puts a job that runs back into the lane bulk: its change may not be sent now. */
  async park(job: Job<Pointer>, token: string): Promise<void> {
    if (!this.isBulk(job)) await job.changePriority({ priority: BULK_PRIORITY });
    await job.moveToWait(token);
  }

  /** Whether somebody has paused the queue through BullMQ, or limited it. */
  async isHeldBack(): Promise<boolean> {
    const { concurrency, max, paused } = await this.queue.getMeta();
    return paused === true || concurrency !== undefined || max !== undefined;
  }

  /**
   * Counts the jobs that may run now, by lane, with the retries that are due. While few wait, adds the jobs
   * of the records that come next.
   */
  async due(now: number): Promise<Record<Lane, number>> {
    const states = ["wait", "prioritized", "delayed"].map((name) => this.queue.toKey(name));
    const keys = [...states, this.#keys.bulkPause, this.#liveOrder, this.#keys.unsynced("bulk")];
    const dueScore = (now + 1) * SCORE_PER_MS - 1;
    const args = [dueScore, FIRST_BULK_SCORE, this.queue.toKey(""), LIVE_PRIORITY];
    const [live, bulk, liveRecords, bulkRecords] = await this.#due(keys, args);
    return {
      live: live + (await this.#missing.refill("live", live, liveRecords)),
      bulk: bulk + (await this.#missing.refill("bulk", bulk, bulkRecords)),
    };
  }

  /** Removes jobs that no worker can read, once one has taken them. @returns how many. */
  async removeUnreadable(): Promise<number> {
    let removed = 0;
    for await (const { id, fault } of stuckJobs(this.#redis, this.queue)) {
      if (fault === undefined) continue;
      await removeJob(this.#redis, this.queue, id);
      removed += 1;
    }
    return removed;
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

/** Whether `data` is that of a pointer job: another client may have added jobs of another kind. */
export function isPointer(data: unknown): data is Pointer {
  const { crmCode } = (data ?? {}) as Readonly<Record<string, unknown>>;
  return typeof crmCode === "string";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The job became due, or ended, between the check and the call. */
function ignoreNotDelayed(error: unknown): void {
  const { code } = error as { code?: unknown };
  if (code !== ErrorCode.JobNotInState && code !== ErrorCode.JobNotExist) throw error;
}

function ignoreGone(error: unknown): void {
  if ((error as { code?: unknown }).code !== ErrorCode.JobNotExist) throw error;
}
