/** Records that were tried again and again without success; few enough to be read at once. */
import type { Redis } from "ioredis";
import { readOne, scriptReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

/** Most records that are remembered: those with the fewest tries are forgotten first. */
const MAX_RECORDS = 1000;

/** Records fail "again and again" once they have failed for this long, ms, and one was tried this often. */
const MIN_AGE_MS = 20_000;
const MIN_TRIES = 2;

/** How the reason begins of a try that sent nothing, because the process could not open the change. */
export const NOT_OPENED = "its change cannot be opened";

/** What one try of a record ended with. */
export interface FailedTry {
  /** As the client names it, behind the status if there was one: `500 (server_error)`; or begins with NOT_OPENED. */
  readonly reason: string;
  /** The hash of its crmCode, even if the log names records by crmCodes: everybody may see the status. */
  readonly record: string;
}

/** The record with the most tries, of all that fail again and again. */
export interface MostRetried extends FailedTry {
  readonly records: number;
  readonly tries: number;
  /** When its first try failed, ms. */
  readonly since: number;
}

export class RetriedRecords {
  readonly #redis: Redis;
  readonly #keys: readonly string[];
  readonly #suspects: string;
  readonly #waiting: readonly string[];
  readonly #failed: RedisScript<number>;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = [keys.retried, keys.retriedDetails];
    this.#suspects = keys.outageSuspects;
    this.#waiting = [keys.unsynced("live"), keys.unsynced("bulk")];
    this.#failed = redisScript(redis, new URL("./lua/retried-failed.lua", import.meta.url));
  }

  async failed(crmCode: string, { reason, record }: FailedTry): Promise<void> {
    await this.#failed(this.#keys, [crmCode, reason, record, MAX_RECORDS]);
  }

  /** The record's change has ended, so the service has no fault with it (outage.ts). */
  async ended(crmCode: string): Promise<void> {
    const [tries = "", details = ""] = this.#keys;
    const pipeline = this.#redis.pipeline().zrem(tries, crmCode).hdel(details, crmCode);
    await pipeline.zrem(this.#suspects, crmCode).exec();
  }

  /** Forgets records that do not wait any more: a newer event has ended their change. */
  async forgetEnded(): Promise<void> {
    await readOne(this.#redis, this.most());
  }

  /** Undefined when no record fails again and again. Forgets records that do not wait any more. */
  most(): Reading<MostRetried | undefined> {
    const file = new URL("./lua/retried-read.lua", import.meta.url);
    const keys = [...this.#keys, ...this.#waiting];
    return scriptReading(file, keys, [MIN_TRIES, MIN_AGE_MS], (reply: string[]) => {
      const [records = "0", tries, details] = reply;
      if (tries === undefined || details === undefined) return undefined;
      const { since, ...last } = JSON.parse(details) as FailedTry & { since: number };
      return { records: Number(records), tries: Number(tries), since, ...last };
    });
  }
}
