/**
 * The queue of records whose turn will come. A job only points at its record: the newest state
 * lies beside it, so what a job carries can never be old.
 */
import { ErrorCode, Queue, type QueueOptions } from "bullmq";
import type { Redis, Result } from "ioredis";
import { addAll } from "../event/add-all.ts";
import type { Lane } from "../sync/lane.ts";
import type { Keys } from "./keys.ts";

export const SYNC_QUEUE = "sync";

/** Jobs without a priority come before those with one: live before bulk. */
const BULK_PRIORITY = 10;

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncWithoutJob(keys: number, ...args: string[]): Result<string[], Context>;
  }
}

/** KEYS dedup key of each record; ARGV prefix of job keys, then crmCodes in the same order. */
const WITHOUT_JOB = `
local missing = {}
for i, key in ipairs(KEYS) do
  local id = redis.call('GET', key)
  if not id or redis.call('EXISTS', ARGV[1] .. id) == 0 then missing[#missing + 1] = ARGV[i + 1] end
end
return missing
`;

export interface Pointer {
  readonly crmCode: string;
}

export class PointerQueue {
  readonly queue: Queue<Pointer>;
  readonly #redis: Redis;
  readonly #keys: Keys;

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
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
    });
    this.queue.on("error", () => {});
    redis.defineCommand("crmsyncWithoutJob", { lua: WITHOUT_JOB });
  }

  /** Points at records. One that waits is not added twice; one that runs comes once more. */
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
   * Lets a record that has a live change go before bulk work, and no longer wait for the retry
   * of an older state. A job that runs or waits among the live ones is left alone.
   */
  async expedite(crmCode: string): Promise<void> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    const job = id === null ? undefined : await this.queue.getJob(id);
    if (job === undefined) return;
    if ((job.priority ?? 0) > 0) await job.changePriority({ priority: 0 });
    if (await job.isDelayed()) await job.promote().catch(ignoreNotDelayed);
    await this.#redis.publish(this.#keys.jobsAdded, "live");
  }

  /**
   * Puts a waiting record's job in front of all others.
   * @returns false when none of its jobs waits.
   */
  async bringForward(crmCode: string): Promise<boolean> {
    const id = await this.queue.getDeduplicationJobId(crmCode);
    const job = id === null ? undefined : await this.queue.getJob(id);
    if (job === undefined || !(await job.isWaiting())) return false;
    return job.changePriority({ priority: 0, lifo: true }).then(() => true, ignoreGone);
  }

  /** Which of these records have no job at all. */
  async withoutJob(crmCodes: readonly string[]): Promise<string[]> {
    if (crmCodes.length === 0) return [];
    const keys = crmCodes.map((crmCode) => this.queue.toKey(`de:${crmCode}`));
    return this.#redis.crmsyncWithoutJob(keys.length, ...keys, this.queue.toKey(""), ...crmCodes);
  }

  /** What may be fetched now, by lane. A retry that is due counts as live. */
  async due(now: number): Promise<Record<Lane, number>> {
    const counts = await this.queue.getJobCounts("wait", "prioritized");
    const retries = await this.#redis.zcount(
      this.queue.toKey("delayed"),
      0,
      // BullMQ scores a delayed job by its time in ms × 4096, plus a running number.
      (now + 1) * 4096 - 1,
    );
    return { live: (counts["wait"] ?? 0) + retries, bulk: counts["prioritized"] ?? 0 };
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

/** It became due, or was done, between the look and the call. */
function ignoreNotDelayed(error: unknown): void {
  const { code } = error as { code?: unknown };
  if (code !== ErrorCode.JobNotInState && code !== ErrorCode.JobNotExist) throw error;
}

function ignoreGone(error: unknown): false {
  if ((error as { code?: unknown }).code !== ErrorCode.JobNotExist) throw error;
  return false;
}
