/** How much of Redis' memory the keys of this tenant take. Nobody asks unless Redis is nearly full: it reads all keys. */
import type { Redis } from "ioredis";
import { scanKeys } from "./scan.ts";
import { readAll } from "./store.ts";

/** It is measured again after this, ms. */
const KEPT_MS = 60_000;

/** A Redis with too many keys for this time is not measured, ms. */
const LONGEST_MS = 1000;

export class OwnMemory {
  readonly #redis: Redis;
  readonly #prefix: string;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #bytes: Promise<number | undefined> = Promise.resolve(undefined);

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
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
    for await (const keys of scanKeys(this.#redis, `${this.#prefix}:`)) {
      const sizes = await readAll(
        this.#redis,
        keys.map((key) => ["MEMORY", "USAGE", key] as const),
      );
      bytes += sizes.reduce((sum: number, size) => sum + Number(size ?? 0), 0);
      if (performance.now() > until) return undefined;
    }
    return bytes;
  }
}
