/** What every store of this folder has: a client, the names of its tenant's keys, and how it writes. */
import type { Redis } from "ioredis";
import { nowReading } from "../ops/redis-reading.ts";
import { redisWrites } from "../ops/redis-script.ts";
import { committer, type Call, type Commit } from "./commit.ts";
import type { Keys } from "./keys.ts";

export abstract class Store {
  protected readonly redis: Redis;
  protected readonly keys: Keys;
  readonly commit: Commit;
  /** Commands in one step, also at Redis' memory limit. @returns their replies */
  protected readonly writes: ReturnType<typeof redisWrites>;

  constructor(redis: Redis, keys: Keys) {
    this.redis = redis;
    this.keys = keys;
    this.commit = committer(redis);
    this.writes = redisWrites(redis);
  }

  /** As `writes`, for one command. */
  protected async write(...command: Call): Promise<unknown> {
    return (await this.writes([command]))[0];
  }

  /** Redis' time, ms. */
  protected async time(): Promise<number> {
    return nowReading.meaning(await this.redis.time());
  }

  /** Whether this process is the one that may do something now; one may in this time, ms. */
  protected async claimFor(key: string, forMs: number): Promise<boolean> {
    return (await this.write("SET", key, "1", "PX", forMs, "NX")) === "OK";
  }
}
