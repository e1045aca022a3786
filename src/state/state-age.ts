/**
 * Notices that Redis went backwards: it was restored from an older copy, was emptied, or a replica took
 * over that lacked the last writes. What it says of the service is then too old to be believed.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { jsonReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";
import { Store } from "./store.ts";

/** For how long status tells that Redis went backwards, ms. */
const TELL_FOR_MS = 86_400_000;

/** Processes whose numbers are remembered, also of those that have ended. */
const MOST_PROCESSES = 1000;

export class StateAge extends Store {
  readonly #count: RedisScript<[name: string, number: number, met: string]>;
  /** Field of this process: the others' counts must not hide that its own is lost. */
  readonly #field: string = randomUUID();
  /** What this process has met last. */
  #name = "";
  #highest = 0;
  #wentBackwards = false;
  #wentBackAt = Number.NEGATIVE_INFINITY;
  #counting: Promise<unknown> = Promise.resolve();

  constructor(redis: Redis, keys: Keys) {
    super(redis, keys);
    this.#count = redisScript(redis, new URL("./lua/count-age.lua", import.meta.url));
  }

  /** Counts up after a write that must not be lost unnoticed. */
  count(): Promise<void> {
    // One after the other: two could read their numbers in the wrong order.
    const counted = this.#counting.then(async () => {
      const args = [randomUUID(), this.#field, MOST_PROCESSES];
      const [name, number, met] = await this.#count([this.keys.age], args);
      const isFirst = this.#name === "";
      if (!isFirst && (name !== this.#name || Number(met) < this.#highest)) {
        this.#wentBackwards = true;
        this.#wentBackAt = performance.now();
      }
      this.#name = name;
      this.#highest = number;
    });
    this.#counting = counted.catch(() => {});
    return counted;
  }

  /** Counts up, too. @returns whether Redis has forgotten what this process had met, until `note` is called. */
  async wentBackwards(): Promise<boolean> {
    await this.count();
    return this.#wentBackwards;
  }

  /** Counts up, too. @returns whether Redis went backwards within this time, ms. */
  async wentBackWithin(ms: number): Promise<boolean> {
    await this.count();
    return performance.now() - this.#wentBackAt <= ms;
  }

  /** Lets status tell for a day that Redis went backwards. Call it once nothing believes the old state. */
  async note(at: number): Promise<void> {
    await this.write("SET", this.keys.wentBackwards, at, "PX", TELL_FOR_MS);
    this.#wentBackwards = false;
  }

  /** When it was noticed, ms; undefined when it was not, or long ago. */
  wentBackwardsAt(): Reading<number | undefined> {
    return jsonReading("get", this.keys.wentBackwards);
  }
}
