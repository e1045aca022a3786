/** Sessions of the console that were ended by logging out, before their time. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

export class EndedSessions {
  readonly #keys: Keys;
  readonly #write: ReturnType<typeof redisWrite>;

  constructor(redis: Redis, keys: Keys) {
    this.#keys = keys;
    this.#write = redisWrite(redis);
  }

  /** @param leftMs for how long its cookie would still be valid. */
  async end(id: string, leftMs: number): Promise<void> {
    await this.#write("SET", this.#keys.endedSession(id), 1, "PX", Math.max(1, leftMs));
  }

  /** @param redis the connection to read over. */
  async has(redis: Redis, id: string): Promise<boolean> {
    return (await redis.exists(this.#keys.endedSession(id))) === 1;
  }
}
