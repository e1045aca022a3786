/** When the last event of each source was received. */
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";

/** A source is written at most this often: an alert on a silent source needs no more. */
const EVERY_MS = 1000;

export class Sources {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #noted = new Map<string, number>();

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** @param source from a bounded set of names. @param at when its event was received, ms. */
  async heard(source: string, at: number): Promise<void> {
    if (at - (this.#noted.get(source) ?? 0) < EVERY_MS) return;
    this.#noted.set(source, at);
    await this.#redis.hset(this.#keys.sources, source, at);
  }

  /** Source → time of its newest event, ms. */
  async last(): Promise<Record<string, number>> {
    const fields = await this.#redis.hgetall(this.#keys.sources);
    return Object.fromEntries(Object.entries(fields).map(([source, at]) => [source, Number(at)]));
  }
}
