import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "./log.ts";
import { lockDataDir, makePrivateDir, readIfThere } from "./data-dir.ts";
import { findRedisServer } from "./find-redis-server.ts";
import { chooseAddress, readAddress, redisUrl, writeConf } from "./redis-conf.ts";
import type { RedisAddress } from "./redis-conf.ts";
import { endOrphan, serves } from "./redis-orphan.ts";
import { LOG_FILE, spawnRedis } from "./redis-process.ts";
import type { RedisProcess } from "./redis-process.ts";

/** Reading a large AOF takes its time: about 200 MB per second. */
const READY_DEADLINE_MS = 300_000;
const PORT_ATTEMPTS = 3;
const RESTARTS = { backoffMs: [100, 500, 1_000, 2_000, 5_000], calmAfterMs: 60_000 };

export type EmbeddedRedisLog = Pick<Logger, "info" | "warn" | "error">;

export interface EmbeddedRedis {
  /** With its password; stays the same through restarts of the server. */
  readonly url: string;
  /** Ends the server, with everything on the disk, and frees the directory. */
  close(): Promise<void>;
  /**
   * Resolves when the server has ended for good: `wanted` after close(), else because it died
   * again and again although it was restarted each time.
   */
  readonly exited: Promise<Exit>;
}

interface Exit {
  wanted: boolean;
  reason: string;
}

/**
 * Runs a real redis-server as a child on the data in `dataDir`/redis: loopback only, with a
 * password, AOF on. It ends with this process however this process ends, is restarted when it dies
 * by itself, and the next start finds its data. Throws DataDirInUse while another process runs one
 * there, NoRedisServer when the machine has none and none can be installed.
 */
export async function startEmbeddedRedis(options: {
  dataDir: string;
  log: EmbeddedRedisLog;
}): Promise<EmbeddedRedis> {
  const lock = lockDataDir(resolve(options.dataDir));
  try {
    const command = await findRedisServer();
    const dir = redisDir(options.dataDir);
    makePrivateDir(dir);
    const last = readAddress(dir);
    if (last !== undefined) await endOrphan(dir, last);
    const { server, address } = await startOnFreePort(command, dir, last);
    options.log.info({ server_pid: server.pid, port: address.port, dir }, "redis.started");
    const stopping = new AbortController();
    const exited = keepRunning(server, stopping.signal, options.log, () => {
      const next = spawnRedis(command, dir);
      void untilReady(next, dir, address).then(
        () => options.log.info({ server_pid: next.pid, port: address.port }, "redis.restarted"),
        () => {}, // its end is seen by keepRunning
      );
      return next;
    }).finally(() => lock.release());
    return {
      url: redisUrl(address),
      exited,
      async close() {
        stopping.abort();
        await exited;
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** The URL of the embedded Redis that another process runs on this data directory, if one does. */
export async function findEmbeddedRedis(dataDir: string): Promise<string | undefined> {
  const dir = redisDir(dataDir);
  const address = readAddress(dir);
  return address && (await serves(dir, address)) ? redisUrl(address) : undefined;
}

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
    writeConf(dir, address);
    const server = spawnRedis(command, dir);
    try {
      await untilReady(server, dir, address);
      return { server, address };
    } catch (error) {
      await server.stop();
      // Somebody may have taken the port in between.
      if (attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

/** Restarts the server whenever it dies, with growing pauses, until stopped or out of pauses. */
async function keepRunning(
  first: RedisProcess,
  stopping: AbortSignal,
  log: EmbeddedRedisLog,
  restart: () => RedisProcess,
): Promise<Exit> {
  let server = first;
  let deaths = 0;
  let startedAt = Date.now();
  stopping.addEventListener("abort", () => void server.stop());
  for (;;) {
    const reason = await server.ended;
    if (stopping.aborted) return { wanted: true, reason };
    if (Date.now() - startedAt > RESTARTS.calmAfterMs) deaths = 0;
    const backoffMs = RESTARTS.backoffMs[deaths];
    log.error({ server_pid: server.pid, reason, backoff_ms: backoffMs }, "redis.exited");
    if (backoffMs === undefined) return { wanted: false, reason };
    deaths += 1;
    await delay(backoffMs, undefined, { signal: stopping }).catch(() => {});
    if (stopping.aborted) return { wanted: true, reason };
    startedAt = Date.now();
    server = restart();
  }
}

/** Resolves when the server answers; throws when it ends before. */
async function untilReady(server: RedisProcess, dir: string, address: RedisAddress): Promise<void> {
  let end: string | undefined;
  void server.ended.then((how) => (end = how));
  const deadline = Date.now() + READY_DEADLINE_MS;
  while (!(await serves(dir, address))) {
    if (end === undefined && Date.now() < deadline) {
      await delay(20);
      continue;
    }
    const lines = readIfThere(join(dir, LOG_FILE))?.trimEnd().split("\n").slice(-5) ?? [];
    throw new Error(
      `redis-server did not start in ${dir} (${end ?? "no answer"}). Its log ends with:\n` +
        lines.join("\n"),
    );
  }
}
