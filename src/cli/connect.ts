import { Redis } from "ioredis";
import type { Config } from "../config.ts";
import { findEmbeddedRedis } from "../ops/embedded-redis.ts";
import { UserError } from "./user-error.ts";

/**
 * The Redis that the daemon uses. One try: whoever types a command wants to hear at once that
 * nothing is there.
 * @throws UserError that says what to do.
 */
export async function connectOnce(config: Config): Promise<Redis> {
  const url = config.REDIS_URL ?? (await findEmbeddedRedis(config.DATA_DIR));
  if (url === undefined) {
    throw new UserError(
      `no daemon runs on DATA_DIR ${config.DATA_DIR}: start one (crmsync start), or set REDIS_URL to the Redis that it uses`,
    );
  }
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    lazyConnect: true,
    retryStrategy: () => null,
  });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return redis;
  } catch (error) {
    throw new UserError(`Redis cannot be reached: ${(error as Error).message}`);
  }
}
