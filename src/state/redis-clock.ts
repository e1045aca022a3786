/** The clock of Redis: the one reference of time that all processes and senders share. */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

/** Times of arrival that are remembered, at most, and for how long, ms. */
const ARRIVALS_MAX = 10_000;
const ARRIVALS_MS = 600_000;

export class RedisClock {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #arrival: RedisScript<number>;
  /** Redis' time at the moment when performance.now() was 0, ms. */
  #origin: number | undefined;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#arrival = redisScript(redis, new URL("./lua/arrival.lua", import.meta.url));
  }

  /** Reads the clock. A step of this machine's own clock does not matter in between. */
  async measure(): Promise<void> {
    const before = performance.now();
    const [seconds, micros] = await this.#redis.time();
    const read = Number(seconds) * 1000 + Number(micros) / 1000;
    this.#origin = read - (before + performance.now()) / 2;
  }

  /** Redis' time as last measured, ms; this machine's own until then. */
  now(): number {
    return this.#origin === undefined ? Date.now() : Math.floor(this.#origin + performance.now());
  }

  /**
   * When an event arrived, ms: exact, and never later than an event of a higher number.
   * @param number of its arrival.
   */
  async arrival(number: number): Promise<number> {
    return this.#arrival([this.#keys.arrivals], [number, ARRIVALS_MAX, ARRIVALS_MS]);
  }
}
