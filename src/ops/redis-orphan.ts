import { readlinkSync, realpathSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { readIfThere } from "./data-dir.ts";
import type { RedisAddress } from "./redis-conf.ts";

const ANSWER_DEADLINE_MS = 2_000;
const HUNG_AFTER_MS = 5_000;
const END_DEADLINE_MS = 60_000;

type Found =
  | "none" // nobody listens on the port, or somebody else
  | "ours" // it answered, and the question was put to it
  | "mute"; // somebody listens and gives no answer: starting, ending, stopped, or not ours

/** Whether the server of this directory runs and has its data at hand. */
export async function serves(dir: string, address: RedisAddress): Promise<boolean> {
  let answered = false;
  await ask(dir, address, async (redis) => {
    await redis.ping(); // refused while it reads its AOF
    answered = true;
  });
  return answered;
}

/**
 * Ends the server that an earlier start left behind, with everything in its AOF, and resolves once
 * it has let go of the directory: two servers must never write one AOF. Its listening socket is
 * the last thing that a server closes, after the AOF is on the disk.
 */
export async function endOrphan(dir: string, address: RedisAddress): Promise<void> {
  const startedAt = Date.now();
  for (;;) {
    // NOSAVE is about the snapshot, not about the AOF, which is always completed.
    const found = await ask(dir, address, async (redis) => redis.shutdown("NOSAVE"));
    const waitedMs = Date.now() - startedAt;
    if (found === "none") return;
    if (found === "mute" && waitedMs > HUNG_AFTER_MS) {
      const pid = hungPid(dir);
      if (pid === undefined) return; // somebody else, who took the port meanwhile
      process.kill(pid, "SIGKILL"); // what it has acknowledged, it has written
    }
    if (waitedMs > END_DEADLINE_MS) {
      throw new Error(`An earlier redis-server in ${dir} does not end: end it by hand.`);
    }
    await delay(20);
  }
}

async function ask(
  dir: string,
  { port, password }: RedisAddress,
  question: (redis: Redis) => Promise<unknown>,
): Promise<Found> {
  if (!(await accepts(port))) return "none";
  const redis = new Redis({
    host: "127.0.0.1",
    port,
    password,
    enableReadyCheck: false,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    connectTimeout: ANSWER_DEADLINE_MS,
    commandTimeout: ANSWER_DEADLINE_MS,
  });
  redis.on("error", () => {}); // the same error rejects the command
  try {
    const [, theirDir] = await redis.config("GET", "dir");
    if (theirDir !== realpathSync(dir)) return "none";
    await question(redis).catch(() => {}); // SHUTDOWN's answer is the closed connection
    return "ours";
  } catch {
    return "mute";
  } finally {
    redis.disconnect();
  }
}

async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** The process of the pid file, if it still is the one that works in this directory. */
function hungPid(dir: string): number | undefined {
  const pid = readIfThere(join(dir, "redis.pid"))?.trim();
  if (pid === undefined) return undefined;
  if (process.platform !== "linux") {
    throw new Error(`A redis-server of ${dir} (process ${pid}) gives no answer: end it by hand.`);
  }
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dir) ? Number(pid) : undefined;
  } catch {
    return undefined;
  }
}
