/**
 * Records that are to be fetched from a CRM. As with records to sync, a job only points: the
 * newest event lies beside it, so that ten events of one record cost one fetch.
 */
import { Queue, type QueueOptions } from "bullmq";
import type { Redis, Result } from "ioredis";
import type { Keys } from "./keys.ts";
import { OLDER } from "./lua.ts";

export const FETCH_QUEUE = "fetch";

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncThin(keys: number, ...args: string[]): Result<number, Context>;
    crmsyncThinDone(keys: number, ...args: string[]): Result<number, Context>;
  }
}

/** KEYS thin; ARGV key, order, event. Keeps the newer of two events of one record. */
const PUT = `
${OLDER}
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and older(ARGV[2], cjson.decode(known).order) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode({ order = ARGV[2], event = ARGV[3] }))
return 1
`;

/** KEYS thin; ARGV key, what was taken. Forgets it unless something newer came meanwhile. */
const DONE = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
`;

export interface ThinPointer {
  /** Name of the CRM. */
  readonly crm: string;
  readonly subject: string;
}

export interface TakenThin {
  /** The event, serialised. */
  readonly event: string;
  readonly order: string;
  /** As it lies in Redis. */
  readonly raw: string;
}

/** For how long an unanswered fetch may wait before the next try, ms. */
const LONGEST_PAUSE_MS = 300_000;
const FIRST_PAUSE_MS = 1000;

/** The pause before the next try; jitter keeps those that failed together apart. */
export const fetchPause = (tries: number, random: () => number): number =>
  Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 20)) * (0.5 + random() / 2);

export class ThinEvents {
  readonly queue: Queue<ThinPointer>;
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
    this.queue = new Queue(FETCH_QUEUE, {
      ...tracing,
      connection: redis,
      prefix,
      defaultJobOptions: {
        removeOnComplete: true,
        removeOnFail: true,
        // The worker gives up by time, never by count.
        attempts: 1_000_000_000,
        backoff: { type: "custom" },
      },
    });
    this.queue.on("error", () => {});
    redis.defineCommand("crmsyncThin", { lua: PUT });
    redis.defineCommand("crmsyncThinDone", { lua: DONE });
  }

  /** Has the record fetched; once, however many ask before it is. */
  async put(pointer: ThinPointer, order: string, event: string): Promise<void> {
    await this.#redis.crmsyncThin(1, this.#keys.thinEvents, keyOf(pointer), order, event);
    await this.queue.add("fetch", pointer, {
      deduplication: { id: keyOf(pointer), keepLastIfActive: true },
    });
  }

  async take(pointer: ThinPointer): Promise<TakenThin | undefined> {
    const raw = await this.#redis.hget(this.#keys.thinEvents, keyOf(pointer));
    if (raw === null) return undefined;
    return { ...(JSON.parse(raw) as { event: string; order: string }), raw };
  }

  async done(pointer: ThinPointer, taken: TakenThin): Promise<void> {
    await this.#redis.crmsyncThinDone(1, this.#keys.thinEvents, keyOf(pointer), taken.raw);
  }

  /** Of one that waits for another try: which CRM, and why it did not give the record. */
  async trouble(): Promise<{ crm: string; why: string } | undefined> {
    const [job] = await this.queue.getDelayed(0, 0);
    if (job?.failedReason === undefined) return undefined;
    const why = /\(([^()]*)\)$/.exec(job.failedReason)?.[1] ?? "no reason given";
    return { crm: job.data.crm, why };
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

const keyOf = ({ crm, subject }: ThinPointer): string => `${crm}|${subject}`;
