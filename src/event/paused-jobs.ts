import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { redisScript } from "../ops/redis-script.ts";

/** Most jobs that one step moves: Redis does nothing else for a few milliseconds. */
const MOST = 5000;

/** Keeps the jobs of a paused queue from a BullMQ client before version 6 that resumes it. */
export function pausedJobsKeeper(redis: Redis, queue: Queue): () => Promise<void> {
  const keep = redisScript<null>(redis, new URL("./lua/keep-paused.lua", import.meta.url));
  const keys = ["meta", "wait", "paused"].map((name) => queue.toKey(name));
  return async () => void (await keep(keys, [MOST]));
}
