/** How Redis is configured, and whether it may lose accepted changes. */
import type { Redis } from "ioredis";

export interface RedisHealth {
  readonly version: string;
  /** `master` or `slave`. */
  readonly role: string;
  readonly appendOnly: boolean;
  /** Whether the last write of the append-only file succeeded. */
  readonly writesSucceed: boolean;
  readonly evictionPolicy: string;
  readonly usedBytes: number;
  /** 0: no limit. */
  readonly limitBytes: number;
}

export async function redisHealth(redis: Redis): Promise<RedisHealth> {
  const text = await redis.info();
  const field = (name: string): string =>
    new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(text)?.[1] ?? "";
  return {
    version: field("redis_version"),
    role: field("role"),
    appendOnly: field("aof_enabled") === "1",
    writesSucceed: field("aof_last_write_status") !== "err",
    evictionPolicy: field("maxmemory_policy"),
    usedBytes: Number(field("used_memory")),
    limitBytes: Number(field("maxmemory")),
  };
}

/** Redis rejects every write when its memory is at the limit. */
export const isFull = ({ usedBytes, limitBytes }: RedisHealth): boolean =>
  limitBytes > 0 && usedBytes >= limitBytes;

/** Each setting or fault that may lose accepted changes, as a sentence. */
export function durabilityProblems(health: RedisHealth): string[] {
  const problems: string[] = [];
  if (!health.appendOnly) problems.push("appendonly is off: a crash of Redis loses changes");
  if (!health.writesSucceed)
    problems.push("its append-only file cannot be written: is the disk full?");
  if (health.evictionPolicy !== "noeviction") {
    problems.push(`maxmemory-policy is ${health.evictionPolicy}: Redis may throw changes away`);
  }
  return problems;
}
