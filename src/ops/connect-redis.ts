import { readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import type { Config } from "../config.ts";
import { findEmbeddedRedis } from "./embedded-redis.ts";
import { UserError } from "./user-error.ts";

/** Less than this is no room for an append-only file, MiB. */
const LITTLE_MIB = 16;

/**
 * The Redis that the daemon uses. One try: whoever types a command wants to hear at once that
 * nothing is there.
 * @throws UserError that says what to do.
 */
export async function connectOnce(config: Config): Promise<Redis> {
  const url = config.REDIS_URL ?? (await findEmbeddedRedis(config.DATA_DIR));
  if (url === undefined) {
    throw new UserError(await whyNoRedis(config.DATA_DIR));
  }
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    lazyConnect: true,
    retryStrategy: () => null,
  });
  // The connection's own error says why; that of the call only that it is closed.
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

/** A daemon may run whose own redis-server does not, which is another trouble. */
async function whyNoRedis(dataDir: string): Promise<string> {
  const pid = Number(await readFile(join(dataDir, "daemon.pid"), "utf8").catch(() => ""));
  if (!isAlive(pid)) {
    return `no daemon runs on DATA_DIR ${dataDir}: start one (crmsync start), or set REDIS_URL to the Redis that it uses`;
  }
  const log = join(dataDir, "redis", "redis.log");
  const said = (await readFile(log, "utf8").catch(() => "")).trimEnd().split("\n").slice(-3);
  const lines = said.map((line) => `\n  ${line}`).join("");
  return `the daemon ${pid} runs on DATA_DIR ${dataDir}, but its redis-server does not answer${await diskText(dataDir)}; see docs/runbook.md#crmsyncredisaway. The end of ${log}:${lines}`;
}

/** Said where little is left: redis-server ends itself when it cannot write. */
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
