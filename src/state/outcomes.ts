/**
 * How the changes of the last hour ended, over all processes: counted in slices that expire.
 * For the status that people read; the exact counts are the metrics.
 */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

const SLICES = 12;

export class Outcomes {
  readonly #redis: Redis;
  readonly #write: ReturnType<typeof redisWrite>;
  readonly #keys: Keys;
  readonly #sliceMs: number;

  /** @param hourMs length of the hour; tests shorten it. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    this.#redis = redis;
    this.#write = redisWrite(redis);
    this.#keys = keys;
    this.#sliceMs = hourMs / SLICES;
  }

  /** @param counts outcome → changes since the last call. */
  async add(counts: ReadonlyMap<string, number>, now: number): Promise<void> {
    const key = this.#keys.outcomes(this.#slice(now));
    await Promise.all([
      ...[...counts].map(([outcome, count]) => this.#write("HINCRBY", key, outcome, count)),
      this.#write("PEXPIRE", key, Math.ceil((SLICES + 2) * this.#sliceMs)),
    ]);
  }

  /** Outcome → changes within the last hour, exact to a twelfth of it. */
  async lastHour(now: number): Promise<Record<string, number>> {
    const newest = this.#slice(now);
    const slices = await Promise.all(
      Array.from({ length: SLICES + 1 }, (_, ago) =>
        this.#redis.hgetall(this.#keys.outcomes(newest - ago)),
      ),
    );
    const sums: Record<string, number> = {};
    for (const slice of slices) {
      for (const [outcome, count] of Object.entries(slice)) {
        sums[outcome] = (sums[outcome] ?? 0) + Number(count);
      }
    }
    return sums;
  }

  #slice(now: number): number {
    return Math.floor(now / this.#sliceMs);
  }
}
