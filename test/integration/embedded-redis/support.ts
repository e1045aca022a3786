import { readdir, readlink } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { Redis } from "ioredis";
import { onTestFinished } from "vitest";
import { spawnNode, type TestProcess } from "../../support/process.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { waitFor } from "../../support/wait-for.ts";

/** A new data directory, removed at the end of the test. */
export async function newDataDir(): Promise<string> {
  const dir = await tempDir();
  onTestFinished(async () => dir[Symbol.asyncDispose]());
  return dir.path;
}

export type Task = "idle" | "write" | "drain" | "exit" | "throw";

export function spawnDaemon(
  dataDir: string,
  task: Task = "idle",
  env: Record<string, string> = {},
): TestProcess {
  return spawnNode([join(import.meta.dirname, "daemon.ts"), dataDir, task], { env });
}

export async function urlOf(daemon: TestProcess): Promise<string> {
  return (await daemon.line(/^url (\S+)$/))[1] ?? "";
}

export function connectTo(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => 50 });
  redis.on("error", () => {}); // the failed command reports it
  onTestFinished(() => redis.disconnect());
  return redis;
}

export async function accepts(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port) });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** The server and its watcher: the processes that run in the directory (Linux only). */
export async function processesIn(dataDir: string): Promise<number[]> {
  const dir = join(dataDir, "redis");
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const cwds = await Promise.all(
    pids.map(async (pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")),
  );
  return pids.filter((_, index) => cwds[index] === dir).map(Number);
}

export async function untilNothingRuns(dataDir: string, url: string): Promise<void> {
  await waitFor(async () => !(await accepts(url)), { what: "the end of the server" });
  await waitFor(async () => (await processesIn(dataDir)).length === 0, {
    what: "the end of every process of the directory",
  });
}
