import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "./log.ts";
import { diskText, lockDataDir, makePrivateDir, readIfThere, unusable } from "./data-dir.ts";
import { findRedisServer } from "./find-redis-server.ts";
import {
  chooseAddress,
  readAddress,
  redisUrl,
  writeConf,
  type RedisAddress,
} from "./redis-conf.ts";
import { endOrphan, serves } from "./redis-orphan.ts";
import { LOG_FILE, spawnRedis, type RedisProcess } from "./redis-process.ts";
import { UserError } from "./user-error.ts";

/** Redis reads its AOF at about 200 MB per second. */
const READY_DEADLINE_MS = 300_000;
const PORT_ATTEMPTS = 3;
const RESTARTS = { backoffMs: [100, 500, 1_000, 2_000, 5_000], stableAfterMs: 60_000 };

type EmbeddedRedisLog = Pick<Logger, "info" | "error">;

/**
 * Runs a real redis-server as a child on the data in `dataDir`/redis: loopback only, with a
 * password, AOF on. It ends with this process however this process ends, is restarted when it exits
 * by itself, and the next start finds its data. Throws DataDirInUse while another process runs one
 * there, NoRedisServer when the machine has none.
 */
export async function startEmbeddedRedis(options: { dataDir: string; log: EmbeddedRedisLog }) {
  const dataDir = resolve(options.dataDir);
  const lock = lockDataDir(dataDir);
  try {
    const command = await findRedisServer();
    const dir = redisDir(dataDir);
    makePrivateDir(dir);
    const last = readAddress(dir);
    if (last !== undefined) await endOrphan(dir, last);
    const { server, address } = await startOnFreePort(command, dir, last);
    options.log.info({ server_pid: server.pid, port: address.port, dir }, "redis.started");
    const stopping = new AbortController();
    const exited = keepRunning(server, dir, stopping.signal, options.log, () => {
      const next = spawnRedis(command, dir);
      void untilReady(next, dir, address).then(
        () => options.log.info({ server_pid: next.pid, port: address.port }, "redis.restarted"),
        () => {}, // keepRunning sees its exit
      );
      return next;
    }).finally(() => lock.release());
    return {
      /** Contains the password; stays the same over restarts of the server. */
      url: redisUrl(address),
      /** Resolves when the server has exited for good: undefined after close(), else why it kept exiting. */
      exited,
      /** Stops the server, with all data on the disk, and unlocks the directory. */
      async close(): Promise<void> {
        stopping.abort();
        await exited;
      },
    };
  } catch (error) {
    lock.release();
    const isAboutFile = (error as NodeJS.ErrnoException).path?.startsWith(dataDir) === true;
    throw isAboutFile ? unusable(dataDir, error) : error;
  }
}

/** The URL of the embedded Redis that another process runs on this data directory, if any. */
export async function findEmbeddedRedis(dataDir: string): Promise<string | undefined> {
  const dir = redisDir(dataDir);
  const address = readAddress(dir);
  return address && (await serves(dir, address)) ? redisUrl(address) : undefined;
}

/** Whether somebody has removed the data of a server that runs: it goes on writing, into files that no start finds. */
export const isRedisDirGone = (dataDir: string): Promise<boolean> =>
  stat(redisDir(dataDir)).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === "ENOENT",
  );

function redisDir(dataDir: string): string {
  return join(resolve(dataDir), "redis");
}

async function startOnFreePort(
  command: string,
  dir: string,
  last: RedisAddress | undefined,
): Promise<{ server: RedisProcess; address: RedisAddress }> {
  for (let attempt = 1; ; attempt += 1) {
    const address = await chooseAddress(last);
    await writeConf(dir, address);
    const server = spawnRedis(command, dir);
    try {
      await untilReady(server, dir, address);
      return { server, address };
    } catch (error) {
      await server.stop();
      // Another program may have taken the port in between.
      if (attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

/** Restarts the server when it exits, with growing pauses, until stopped or out of pauses. */
async function keepRunning(
  first: RedisProcess,
  dir: string,
  stopping: AbortSignal,
  log: EmbeddedRedisLog,
  restart: () => RedisProcess,
): Promise<string | undefined> {
  let server = first;
  let exits = 0;
  let startedAt = Date.now();
  stopping.addEventListener("abort", () => void server.stop());
  for (;;) {
    const ended = await server.ended;
    if (stopping.aborted) return undefined;
    const reason = `${ended}${await diskText(dir)}`;
    if (Date.now() - startedAt > RESTARTS.stableAfterMs) exits = 0;
    const backoffMs = RESTARTS.backoffMs[exits];
    log.error({ server_pid: server.pid, reason, backoff_ms: backoffMs }, "redis.exited");
    if (backoffMs === undefined) return reason;
    exits += 1;
    await delay(backoffMs, undefined, { signal: stopping }).catch(() => {});
    if (stopping.aborted) return undefined;
    startedAt = Date.now();
    server = restart();
  }
}

/** Resolves when the server answers; throws if it exits before. */
async function untilReady(server: RedisProcess, dir: string, address: RedisAddress): Promise<void> {
  let exit: string | undefined;
  void server.ended.then((how) => (exit = how));
  const deadline = Date.now() + READY_DEADLINE_MS;
  while (!(await serves(dir, address))) {
    if (exit === undefined && Date.now() < deadline) {
      await delay(20);
      continue;
    }
    const lines = readIfThere(join(dir, LOG_FILE))?.trimEnd().split("\n").slice(-5) ?? [];
    throw new UserError(
      `redis-server did not start in ${dir} (${exit ?? "no answer"})${await diskText(dir)}; see docs/runbook.md#crmsyncredisaway. The end of its log:\n` +
        lines.map((line) => `  ${line}`).join("\n"),
    );
  }
}
