/** How much of Redis' memory the keys of this tenant take. Nobody asks unless Redis is nearly full: it reads all keys. */
import type { Redis } from "ioredis";
import { readAll } from "./store.ts";

/** It is measured again after this, ms. */
const KEPT_MS = 60_000;

/** A Redis with too many keys for this time is not measured, ms. */
const LONGEST_MS = 1000;

const KEYS_AT_ONCE = 1000;

export class OwnMemory {
  readonly #redis: Redis;
  readonly #pattern: string;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #bytes: Promise<number | undefined> = Promise.resolve(undefined);

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#pattern = `${prefix.replaceAll(/[*?[\]\\]/g, "\\$&")}:*`;
  }

  /** Undefined when it is not known: Redis does not allow it, or it takes too long. */
  bytes(): Promise<number | undefined> {
    if (performance.now() - this.#measuredAt > KEPT_MS) {
      this.#measuredAt = performance.now();
      this.#bytes = this.#measure().catch(() => undefined);
    }
    return this.#bytes;
  }

  async #measure(): Promise<number | undefined> {
    const until = performance.now() + LONGEST_MS;
    let bytes = 0;
    let cursor = "0";
    do {
      const match = ["MATCH", this.#pattern, "COUNT", KEYS_AT_ONCE] as const;
      const [next, keys] = await this.#redis.scan(cursor, ...match);
      const sizes = await readAll(
        this.#redis,
        keys.map((key) => ["MEMORY", "USAGE", key] as const),
      );
      bytes += sizes.reduce((sum: number, size) => sum + Number(size ?? 0), 0);
      cursor = next;
      if (performance.now() > until) return undefined;
    } while (cursor !== "0");
    return bytes;
  }
}
