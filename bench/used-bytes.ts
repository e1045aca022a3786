import type { Redis } from "ioredis";

/** Memory that a Redis uses, by its own count (used_memory). */
export async function usedBytes(redis: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info("memory"))?.[1] ?? 0);
}
