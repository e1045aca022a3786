/**
 * A service that is unavailable for every record. Shared, so that all processes together try it
 * once per pause instead of spending the quota on it.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

/** Failures in a row, over all records and processes, that make an outage. */
const FAILURES = 5;

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** Times in ms. */
export interface OutageView {
  readonly since: number;
  /** Of the newest failure, as the client names it. */
  readonly reason: string;
  readonly nextTryAt: number;
}

export class Outage {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #failed: RedisScript<number>;
  readonly #try: RedisScript<number>;
  /** Whether this process knows of a failure (its own or another's) since the last usable reply. */
  #failing = true;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#key = keys.outage;
    this.#failed = redisScript(redis, new URL("./lua/outage-failed.lua", import.meta.url));
    this.#try = redisScript(redis, new URL("./lua/outage-try.lua", import.meta.url));
  }

  /**
   * Counts an unavailable reply.
   * @param reason as the client names it.
   * @returns whether an outage begins with this failure.
   */
  async failed(reason: string): Promise<boolean> {
    this.#failing = true;
    const args = [FAILURES, FIRST_PAUSE_MS, LONGEST_PAUSE_MS, reason];
    return (await this.#failed([this.#key], args)) === 1;
  }

  /** The service has given a usable reply. @returns whether an outage ends with it. */
  async succeeded(): Promise<boolean> {
    // One deletion per recovery of a process, not one per request.
    if (!this.#failing) return false;
    const [until] = await this.#redis.hmget(this.#key, "until");
    await this.#redis.del(this.#key);
    this.#failing = false;
    return until !== null && until !== undefined;
  }

  /** How long to wait before a request may be tried, ms; 0: this process may make the try now. */
  async waitMs(): Promise<number> {
    const wait = await this.#try([this.#key]);
    if (wait >= 0) return wait;
    // The failures may all be of other processes, which may have ended since.
    this.#failing = true;
    return 0;
  }

  /** Reads the outage without claiming a try; undefined when there is none. */
  async current(): Promise<OutageView | undefined> {
    const field = await this.#redis.hgetall(this.#key);
    if (field["until"] === undefined) return undefined;
    const nextTryAt = Number(field["until"]);
    return {
      since: Number(field["since"] ?? nextTryAt),
      reason: field["reason"] ?? "unknown",
      nextTryAt,
    };
  }
}
