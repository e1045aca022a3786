/** Finds the embedded redis-server that an earlier start left behind, and ends it. */
import { readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import { readIfThere } from "./data-dir.ts";
import { openRedis } from "./open-redis.ts";
import { redisUrl, type RedisAddress } from "./redis-conf.ts";

const ANSWER_DEADLINE_MS = 2_000;
const HUNG_AFTER_MS = 5_000;
const END_DEADLINE_MS = 60_000;

type Found =
  | "none" // nothing listens on the port, or another program
  | "ours" // our server answered, and `question` was sent to it
  | "silent"; // something listens and does not answer: starting, ending, stopped, or not ours

/** Whether the server of this directory runs and has loaded its data. */
export async function serves(dir: string, address: RedisAddress): Promise<boolean> {
  let answered = false;
  await ask(dir, address, async (redis) => {
    await redis.ping(); // fails while it reads its AOF
    answered = true;
  });
  return answered;
}

/**
 * Shuts down the server that an earlier start left behind, and resolves when it no longer writes to
 * the directory: two servers must never write one AOF. A server closes its listening socket last,
 * after the AOF is on the disk.
 */
export async function endOrphan(dir: string, address: RedisAddress): Promise<void> {
  const startedAt = Date.now();
  for (;;) {
    // NOSAVE skips the RDB file only; the AOF is always completed.
    const found = await ask(dir, address, async (redis) => redis.shutdown("NOSAVE"));
    const waitedMs = Date.now() - startedAt;
    if (found === "none") return;
    if (found === "silent" && waitedMs > HUNG_AFTER_MS) {
      const pid = hungPid(dir);
      if (pid === undefined) return; // another program has taken the port
      process.kill(pid, "SIGKILL"); // everything it acknowledged is in the AOF
    }
    if (waitedMs > END_DEADLINE_MS) {
      throw new Error(`An earlier redis-server in ${dir} does not end. Kill it, then start again.`);
    }
    await delay(20);
  }
}

async function ask(
  dir: string,
  address: RedisAddress,
  question: (redis: Redis) => Promise<unknown>,
): Promise<Found> {
  let isRefused = false;
  const redis = openRedis(
    { url: redisUrl(address), prefix: "" },
    {
      enableReadyCheck: false,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
      connectTimeout: ANSWER_DEADLINE_MS,
      commandTimeout: ANSWER_DEADLINE_MS,
    },
  );
  redis.on("error", ({ code }: NodeJS.ErrnoException) => (isRefused ||= code === "ECONNREFUSED"));
  try {
    const [, theirDir] = await redis.config("GET", "dir");
    if (theirDir !== realpathSync(dir)) return "none";
    await question(redis).catch(() => {}); // the reply to SHUTDOWN is the closed connection
    return "ours";
  } catch {
    return isRefused ? "none" : "silent";
  } finally {
    redis.disconnect();
  }
}

/** The process in the pid file, if it still runs in this directory. */
function hungPid(dir: string): number | undefined {
  const pid = readIfThere(join(dir, "redis.pid"))?.trim();
  if (pid === undefined) return undefined;
  if (process.platform !== "linux") {
    throw new Error(
      `The redis-server in ${dir} (process ${pid}) does not respond. Kill it, then start again.`,
    );
  }
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dir) ? Number(pid) : undefined;
  } catch {
    return undefined;
  }
}
