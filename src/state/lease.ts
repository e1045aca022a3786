/** A lock in Redis for work that one process at a time does. It ends by itself when its process dies. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";

export class Lease {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #forMs: number;
  readonly #write: ReturnType<typeof redisWrite>;

  /** @param forMs after this long without a sign of its owner, another one gets it */
  constructor(redis: Redis, key: string, forMs: number) {
    this.#redis = redis;
    this.#key = key;
    this.#forMs = forMs;
    this.#write = redisWrite(redis);
  }

  /** Whether this owner has it now; to be called again before it ends. */
  async claim(owner: string): Promise<boolean> {
    const set = await this.#write("SET", this.#key, owner, "PX", this.#forMs, "NX");
    if (set === "OK") return true;
    if ((await this.#redis.get(this.#key)) !== owner) return false;
    await this.#redis.pexpire(this.#key, this.#forMs);
    return true;
  }

  async release(owner: string): Promise<void> {
    if ((await this.#redis.get(this.#key)) === owner) await this.#redis.del(this.#key);
  }
}
