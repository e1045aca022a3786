/**
 * When dead letters expire. Their age is the time that the processes of crmsync have counted since a
 * letter was stored last, not a difference of two dates: a clock that is wrong for a while cannot make
 * all of them old at once.
 */
import type { Redis } from "ioredis";
import type { Meaning } from "../../base/redis-reading.ts";
import type { Keys } from "./keys.ts";
import { luaReading, Store } from "./store.ts";

const DAY_MS = 86_400_000;

/** Most time that counts between two calls, ms. After a longer break, letters are kept for longer. */
const MOST_COUNTED_MS = DAY_MS;

/** Most letters, and most of their bytes, that one script call deletes: it takes milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1_048_576;

/** How long before its end a letter is announced, ms; half of its whole time, if that is shorter. */
const ANNOUNCED_MS = 3 * DAY_MS;

export class DeadLetterExpiry extends Store {
  readonly #afterMs: number | undefined;
  readonly #expire = this.script<[expired: number, more: number]>("expire-dead-letters");

  /** @param days after which a letter is deleted; undefined: never. */
  constructor(redis: Redis, keys: Keys, days: number | undefined) {
    super(redis, keys);
    this.#afterMs = days === undefined ? undefined : days * DAY_MS;
  }

  /** Counts the time, and deletes one batch. @returns whether more are to be deleted. */
  async expire(): Promise<{ expired: number; more: boolean }> {
    const limits = [MOST_COUNTED_MS, BATCH, BATCH_BYTES];
    const [expired, more] = await this.#expire(
      [this.keys.deadLetters],
      [this.#afterMs ?? "", ...limits],
    );
    return { expired, more: more === 1 };
  }

  /** Undefined when no letter is ever deleted, or there is none. */
  reading() {
    const afterMs = this.#afterMs ?? 0;
    const withinMs = Math.min(ANNOUNCED_MS, afterMs / 2);
    return luaReading(
      "expiring-dead-letters",
      [this.keys.deadLetters],
      [afterMs, withinMs],
      ([soon, first]: [number, string]) =>
        this.#afterMs === undefined || first === ""
          ? undefined
          : {
              /** Letters that are deleted soon. */
              soon,
              /** How soon that is, ms. */
              withinMs,
              /** When the first one is deleted, in ms from now. */
              firstMs: Math.max(0, Number(first)),
            },
    );
  }

  /** For these ids: id → ms until the letter is deleted; empty when letters are never deleted. */
  async left(ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const { deadAges, deadTime } = this.keys;
    const afterMs = this.#afterMs;
    const left = new Map<string, number>();
    if (afterMs === undefined || ids.length === 0) return left;
    const [counted, since] = await Promise.all([
      this.redis.hget(deadTime, "counted"),
      this.redis.zmscore(deadAges, ...ids),
    ]);
    for (const [index, id] of ids.entries()) {
      const at = since[index] ?? null;
      if (at === null) continue;
      left.set(id, Math.max(0, afterMs - (Number(counted ?? 0) - Number(at))));
    }
    return left;
  }
}

export type ExpiringLetters = NonNullable<Meaning<ReturnType<DeadLetterExpiry["reading"]>>>;
