import { readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { findEmbeddedRedis } from "./embedded-redis.ts";
import { UserError } from "./user-error.ts";

/** With less free space than this, an append-only file cannot grow, MiB. */
const LITTLE_MIB = 16;

/**
 * Connects a command to the Redis that the daemon uses. One try only: a person waits for the answer.
 * @throws UserError that says what to do.
 */
export async function connectOnce(settings: {
  readonly REDIS_URL?: string | undefined;
  readonly DATA_DIR: string;
}): Promise<Redis> {
  const dataDir = settings.DATA_DIR;
  const url = settings.REDIS_URL ?? (await findEmbeddedRedis(dataDir));
  if (url === undefined) throw new UserError(await whyNoRedis(dataDir));
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    lazyConnect: true,
    retryStrategy: () => null,
  });
  // The connection's error names the cause; the error of connect() only says that it is closed.
  let cause: Error | undefined;
  redis.on("error", (error: Error) => (cause ??= error));
  try {
    await redis.connect();
    return redis;
  } catch (error) {
    const { message } = cause ?? (error as Error);
    throw new UserError(
      `Redis at ${new URL(url).host || "its socket"} cannot be reached: ${message}; see docs/runbook.md#crmsyncredisaway`,
    );
  }
}

/** Distinguishes no daemon at all from a daemon whose redis-server is down. */
async function whyNoRedis(dataDir: string): Promise<string> {
  const pid = Number(await readFile(join(dataDir, "daemon.pid"), "utf8").catch(() => ""));
  if (!isAlive(pid)) {
    return `no daemon is running on DATA_DIR ${dataDir}: start one (crmsync start), or set REDIS_URL to the Redis that it uses`;
  }
  const log = join(dataDir, "redis", "redis.log");
  const said = (await readFile(log, "utf8").catch(() => "")).trimEnd().split("\n").slice(-3);
  const lines = said.map((line) => `\n  ${line}`).join("");
  return `the daemon ${pid} runs on DATA_DIR ${dataDir}, but its redis-server does not answer${await diskText(dataDir)}; see docs/runbook.md#crmsyncredisaway. The end of ${log}:${lines}`;
}

/** Named where little is left: redis-server exits when it cannot write. */
async function diskText(dataDir: string): Promise<string> {
  const { bavail, bsize } = await statfs(dataDir);
  const left = (bavail * bsize) / 2 ** 20;
  return left < LITTLE_MIB ? `: its disk is full (${left.toFixed(1)} MiB left)` : "";
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
