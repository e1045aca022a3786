/**
 * The queue of pointer jobs. A job carries only the crmCode of its record; the newest state lies
 * beside it, so a job never carries an old state.
 */
import { ErrorCode, Queue, type Job, type QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { addAll, SHORT_STREAMS } from "../event/add-all.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Lane } from "../sync/lane.ts";
import type { Keys } from "./keys.ts";

export const SYNC_QUEUE = "sync";

/** Jobs without a priority come before those with one: live before bulk. */
const BULK_PRIORITY = 10;
const BULK_RETRY_PRIORITY = 5;

/** BullMQ scores a delayed job by its time in ms × 4096, plus a running number. */
const SCORE_PER_MS = 4096;

/** Redis carries out so many commands of one connection before it serves the others. */
const REMOVED_AT_ONCE = 50;

/** A record that runs is not asked for again before this, ms. */
const RUNNING_MS = 1000;

/** What became of the job that should come first. */
export type Brought =
  | { readonly kind: "first" }
  /** It runs now, or its retry is not due. */
  | { readonly kind: "later"; readonly afterMs: number }
  | { readonly kind: "gone" };

export interface Pointer {
  readonly crmCode: string;
}

export class PointerQueue {
  readonly queue: Queue<Pointer>;
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #misplaced: RedisScript<[string[], string[]]>;
  readonly #due: RedisScript<[number, number]>;

  constructor(
    redis: Redis,
    prefix: string,
    keys: Keys,
    tracing: Pick<QueueOptions, "telemetry"> = {},
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.queue = new Queue(SYNC_QUEUE, {
      ...tracing,
      connection: redis,
      prefix,
      streams: SHORT_STREAMS,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
    });
    // Without a listener a lost connection would be an uncaught error; the client's owner logs it.
    this.queue.on("error", () => {});
    this.#misplaced = redisScript(redis, new URL("./lua/misplaced-jobs.lua", import.meta.url));
    this.#due = redisScript(redis, new URL("./lua/due.lua", import.meta.url));
  }

  /** Adds jobs. A record whose job waits gets no second one; one whose job runs gets one more. */
  async add(pointers: readonly { readonly crmCode: string; readonly lane: Lane }[]): Promise<void> {
    await addAll(
      this.queue,
      pointers.map(({ crmCode, lane }) => ({
        name: "sync",
        data: { crmCode },
        opts: {
          deduplication: { id: crmCode, keepLastIfActive: true },
          ...(lane === "bulk" && { priority: BULK_PRIORITY }),
        },
      })),
    );
    const urgent = pointers.some(({ lane }) => lane === "live");
    await this.#redis.publish(this.#keys.jobsAdded, urgent ? "live" : "bulk");
  }

  /**
   * Moves the job of a record with a live change before all bulk jobs, and ends its wait for the
   * retry of an older state. Does nothing to a job that runs or waits in the live lane.
   */
  async expedite(crmCode: string): Promise<void> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    const job = id === null ? undefined : await this.queue.getJob(id);
    if (job === undefined) return;
    if ((job.priority ?? 0) > 0) await job.changePriority({ priority: 0 });
    if (await job.isDelayed()) await job.promote().catch(ignoreNotDelayed);
    await this.#redis.publish(this.#keys.jobsAdded, "live");
  }

  /** Puts the job of a record before all other jobs, if it waits or its retry is due. */
  async bringForward(crmCode: string): Promise<Brought> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    const job = id === null ? undefined : await this.queue.getJob(id);
    if (job === undefined) return { kind: "gone" };
    const state = await job.getState();
    if (state === "active") return { kind: "later", afterMs: RUNNING_MS };
    if (state === "delayed") {
      const afterMs = (await this.#dueAt(job)) - Date.now();
      if (afterMs > 0) return { kind: "later", afterMs };
      await job.promote().catch(ignoreNotDelayed);
    }
    const first: Brought = { kind: "first" };
    return job.changePriority({ priority: 0, lifo: true }).then(() => first, goneOrThrow);
  }

  /** When the job of a record is due, ms (undefined: it may run now); undefined without a job. */
  async waitOf(crmCode: string): Promise<{ readonly dueAt: number | undefined } | undefined> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    const job = id === null ? undefined : await this.queue.getJob(id);
    if (job === undefined) return undefined;
    return { dueAt: (await this.#dueAt(job)) || undefined };
  }

  /** How many bulk jobs go before that of a record; undefined when it is no bulk job that waits. */
  async bulkAhead(crmCode: string): Promise<number | undefined> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    if (id === null) return undefined;
    const key = this.queue.toKey("prioritized");
    const score = await this.#redis.zscore(key, id);
    return score === null ? undefined : this.#redis.zcount(key, "-inf", `(${score}`);
  }

  /** Whether a record has a job. */
  async hasJob(crmCode: string): Promise<boolean> {
    return (await this.queue.getDeduplicationJobId(crmCode)) !== null;
  }

  /** Removes the job of a record, unless it runs. */
  async remove(crmCode: string): Promise<void> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    if (id === null) return;
    const job = await this.queue.getJob(id);
    if (job === undefined) await this.queue.removeDeduplicationKey(crmCode);
    else await this.queue.remove(id);
  }

  /** Removes the jobs of these records, except those that run. */
  async removeAll(crmCodes: readonly string[]): Promise<void> {
    if (crmCodes.length === 0) return;
    const ids = await this.#redis.mget(crmCodes.map((one) => this.queue.toKey(`de:${one}`)));
    const known = ids.filter((id) => id !== null);
    for (let from = 0; from < known.length; from += REMOVED_AT_ONCE) {
      const some = known.slice(from, from + REMOVED_AT_ONCE);
      await Promise.all(some.map((id) => this.queue.remove(id, { removeChildren: false })));
    }
  }

  /** When a delayed job is due; 0 when it is not delayed any more. */
  async #dueAt({ id = "" }: Job): Promise<number> {
    const score = await this.#redis.zscore(this.queue.toKey("delayed"), id);
    return Math.floor(Number(score ?? 0) / SCORE_PER_MS);
  }

  /** Lets the retry of a bulk record go before the other bulk jobs, as it did before it failed. */
  async retryBeforeBulk(job: Job<Pointer>): Promise<void> {
    if (job.priority !== BULK_PRIORITY) return;
    await job.changePriority({ priority: BULK_RETRY_PRIORITY }).catch(goneOrThrow);
  }

  /** The records among these that have no job, and those whose job is in the lane bulk. */
  async misplaced(
    crmCodes: readonly string[],
  ): Promise<{ readonly withoutJob: readonly string[]; readonly inBulk: readonly string[] }> {
    if (crmCodes.length === 0) return { withoutJob: [], inBulk: [] };
    const keys = crmCodes.map((crmCode) => this.queue.toKey(`de:${crmCode}`));
    const [withoutJob, inBulk] = await this.#misplaced(keys, [this.queue.toKey(""), ...crmCodes]);
    return { withoutJob, inBulk };
  }

  /** Puts a job that runs back among those of the bulk lane: its change may not be sent now. */
  async park(job: Job<Pointer>, token: string): Promise<void> {
    if ((job.priority ?? 0) === 0) await job.changePriority({ priority: BULK_PRIORITY });
    await job.moveToWait(token);
  }

  /** Jobs that may run now, by lane. A retry that is due counts as live. */
  async due(now: number): Promise<Record<Lane, number>> {
    const states = ["wait", "prioritized", "delayed"].map((name) => this.queue.toKey(name));
    const keys = [...states, this.#keys.bulkPause];
    const [live, bulk] = await this.#due(keys, [(now + 1) * SCORE_PER_MS - 1]);
    return { live, bulk };
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

/** The job became due, or ended, between the check and the call. */
function ignoreNotDelayed(error: unknown): void {
  const { code } = error as { code?: unknown };
  if (code !== ErrorCode.JobNotInState && code !== ErrorCode.JobNotExist) throw error;
}

function goneOrThrow(error: unknown): Brought {
  if ((error as { code?: unknown }).code !== ErrorCode.JobNotExist) throw error;
  return { kind: "gone" };
}
