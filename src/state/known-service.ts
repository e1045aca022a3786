/** Which service the ledger is about: what another one has is not in it. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import { digestOf } from "./digest.ts";
import type { Keys } from "./keys.ts";

/** Names a service without its address. @param baseUrl without the version prefix */
export const serviceName = (baseUrl: string): string =>
  digestOf((URL.parse(baseUrl)?.href ?? baseUrl).replace(/\/+$/, "")).slice(0, 8);

export class KnownService {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #write: ReturnType<typeof redisWrite>;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#key = keys.service;
    this.#write = redisWrite(redis);
  }

  /** Its name; undefined before the first process has begun to send. */
  async name(): Promise<string | undefined> {
    return (await this.#redis.get(this.#key)) ?? undefined;
  }

  async note(name: string): Promise<void> {
    await this.#write("SET", this.#key, name);
  }
}
