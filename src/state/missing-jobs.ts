/**
 * Adds the pointer jobs of records that wait without one: the queue holds only the jobs of the records that
 * come next, and a crash may have lost a job (docs/adr/0033).
 */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import type { Keys } from "./keys.ts";
import { FEW_JOBS, FIRST_BULK_SCORE, JOBS_AHEAD, stepOf, type PointerStep } from "./pointer-job.ts";

/** Most jobs that one refill adds. */
const REFILLED = 100;

/** Most records that one refill looks at, in the order in which they are served. */
const REFILL_LOOKS = 10_000;

/**
 * After a refill that added nothing, the next one follows no sooner than this, ms: a change that is staged
 * while few jobs wait gets its job at once.
 */
const REFILL_PAUSE_MS = 5000;

/** Records in one script call: to add a job takes up to 70 µs. */
const RESTORED_AT_ONCE = 50;

export class MissingJobs {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #queue: Pick<Queue, "toKey">;
  readonly #step: PointerStep;
  /** Sorted sets of the records of a lane, in the order in which they are served. */
  readonly #orders: Readonly<Record<Lane, string>>;
  readonly #script: RedisScript<number>;
  /** From when (by performance.now()), and from which place in the order, the next refill looks. */
  readonly #refillFrom: Record<Lane, number> = { live: 0, bulk: 0 };
  readonly #lookFrom: Record<Lane, number> = { live: 0, bulk: 0 };

  /** @param liveOrder sorted set of live records in the order in which they are served */
  constructor(redis: Redis, keys: Keys, queue: Pick<Queue, "toKey">, liveOrder: string) {
    this.#redis = redis;
    this.#keys = keys;
    this.#queue = queue;
    this.#step = stepOf(queue, keys);
    this.#orders = { live: liveOrder, bulk: keys.unsynced("bulk") };
    this.#script = redisScript(redis, new URL("./lua/restore-jobs.lua", import.meta.url));
  }

  /** How many more jobs may wait. */
  async room(): Promise<Record<Lane, number>> {
    const key = this.#queue.toKey("prioritized");
    const [live, bulk] = await Promise.all([
      this.#redis.zcount(key, "-inf", `(${FIRST_BULK_SCORE}`),
      this.#redis.zcard(this.#keys.unsynced("bulk")),
    ]);
    return { live: JOBS_AHEAD - live, bulk: FEW_JOBS - bulk };
  }

  /** Adds the jobs that these live records lack, while few jobs wait. @returns how many were added */
  async addIfFew(crmCodes: readonly string[]): Promise<number> {
    if (crmCodes.length === 0) return 0;
    const { live } = await this.room();
    return live > JOBS_AHEAD - FEW_JOBS ? this.add(crmCodes, live) : 0;
  }

  /**
   * Adds the jobs that these records lack.
   * @param mostBulk while so many bulk records wait, none gets a job here: the records before it come first
   * @returns how many were added, at most `most`.
   */
  async add(crmCodes: readonly string[], most: number, mostBulk = FEW_JOBS): Promise<number> {
    const { prefix, livePriority, bulkPriority, jobsAdded, keys, idOf } = this.#step;
    const lanes = LANES.map((lane) => this.#keys.unsynced(lane));
    let added = 0;
    for (let from = 0; from < crmCodes.length && added < most; from += RESTORED_AT_ONCE) {
      const records = crmCodes.slice(from, from + RESTORED_AT_ONCE);
      const ids = records.map(idOf);
      added += await this.#script(
        [
          ...lanes,
          ...keys,
          ...records.flatMap((crmCode, n) => [
            this.#queue.toKey(ids[n] ?? ""),
            this.#keys.staged(crmCode),
          ]),
        ],
        [
          prefix,
          livePriority,
          bulkPriority,
          jobsAdded,
          most - added,
          mostBulk,
          ...records.flatMap((crmCode, n) => [crmCode, ids[n] ?? ""]),
        ],
      );
    }
    return added;
  }

  /**
   * Adds the jobs of the records that are served next, while few jobs wait in a lane. The first records of
   * the order have jobs, which wait, run or are delayed: so it looks at as many records more.
   * @param jobs how many jobs of this lane wait
   * @param records how many records of this lane wait
   * @returns how many jobs were added
   */
  async refill(lane: Lane, jobs: number, records: number): Promise<number> {
    if (jobs >= FEW_JOBS || records <= jobs) return 0;
    if (performance.now() < this.#refillFrom[lane]) return 0;
    const [active, delayed] = await Promise.all([
      this.#redis.llen(this.#queue.toKey("active")),
      this.#redis.zcard(this.#queue.toKey("delayed")),
    ]);
    const looks = Math.min(REFILL_LOOKS, jobs + active + delayed + REFILLED);
    const from = this.#lookFrom[lane];
    const next = await this.#redis.zrange(
      this.#orders[lane],
      String(from),
      String(from + looks - 1),
    );
    const added = await this.add(next, REFILLED, Number.MAX_SAFE_INTEGER);
    // More records have delayed jobs than one refill looks at: the next refill goes on behind these.
    this.#lookFrom[lane] = added === 0 && next.length === REFILL_LOOKS ? from + REFILL_LOOKS : 0;
    if (added === 0) this.#refillFrom[lane] = performance.now() + REFILL_PAUSE_MS;
    return added;
  }
}
