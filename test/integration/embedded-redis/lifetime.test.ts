import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  accepts,
  connectTo,
  newDataDir,
  processesIn,
  spawnDaemon,
  untilNothingRuns,
  urlOf,
  type Task,
} from "./support.ts";
import { waitFor } from "../../support/wait-for.ts";

test.for<[string, Task, NodeJS.Signals?]>([
  ["kill -9", "idle", "SIGKILL"],
  ["kill -9 while it writes", "write", "SIGKILL"],
  ["SIGTERM", "idle", "SIGTERM"],
  ["SIGINT", "idle", "SIGINT"],
  ["SIGHUP", "idle", "SIGHUP"],
  ["process.exit", "exit"],
  ["an uncaught error", "throw"],
])("The server and its watcher end when their parent ends by %s", async ([, task, signal]) => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir, task);
  const url = await urlOf(daemon);
  if (signal !== undefined) daemon.kill(signal);
  await daemon.ended;
  await untilNothingRuns(dataDir, url);
});

test("The watcher of a server that has exited sends no signal: its pid may be that of another process", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir);
  const redis = connectTo(await urlOf(daemon));
  process.kill(await serverPid(redis), "SIGKILL");
  await daemon.line(/redis.restarted/);
  // The watcher and the server of the restart.
  await waitFor(async () => (await processesIn(dataDir)).length === 2, { what: "one watcher" });
  expect(readFileSync(join(dataDir, "redis", "redis.log"), "utf8")).not.toContain("kill:");
});

test("After kill -9 during writes, the next start has every acknowledged write", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir, "write");
  await daemon.line(/^acknowledged 500$/);
  daemon.kill("SIGKILL");
  await using next = spawnDaemon(dataDir); // at once: the first server is still ending
  await daemon.ended;
  const acknowledged = Number(daemon.stdout.at(-1)?.split(" ")[1]);
  expect(acknowledged).toBeGreaterThanOrEqual(500);
  const count = Number(await connectTo(await urlOf(next)).get("count"));
  // The write in flight may have been stored although its reply was not seen.
  expect(count).toBeGreaterThanOrEqual(acknowledged);
  expect(count).toBeLessThanOrEqual(acknowledged + 1);
});

test("The next start shuts down a server that outlived its parent and its watcher", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir);
  const url = await urlOf(daemon);
  const redis = connectTo(url);
  await redis.set("kept", "yes");
  const server = await serverPid(redis);
  await orphan(dataDir, server, daemon.pid);
  await daemon.ended;
  expect(await accepts(url)).toBe(true);

  await using next = spawnDaemon(dataDir);
  const nextRedis = connectTo(await urlOf(next));
  expect(await nextRedis.get("kept")).toBe("yes");
  expect(await serverPid(nextRedis)).not.toBe(server);
  expect(await processesIn(dataDir)).not.toContain(server);
});

test("The next start kills an orphan that does not answer", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir);
  const redis = connectTo(await urlOf(daemon));
  await redis.set("kept", "yes");
  const server = await serverPid(redis);
  await orphan(dataDir, server, daemon.pid);
  process.kill(server, "SIGSTOP");

  await using next = spawnDaemon(dataDir);
  expect(await connectTo(await urlOf(next)).get("kept")).toBe("yes");
  expect(await processesIn(dataDir)).not.toContain(server);
});

test("Ctrl-C reaches only the parent, which can still drain into its Redis", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir, "drain");
  const url = await urlOf(daemon);
  const server = await serverPid(connectTo(url));
  expect(sessionOf(server)).not.toBe(sessionOf(process.pid));
  daemon.kill("SIGINT");
  await daemon.line(/^drained 1$/);
  expect(await daemon.ended).toEqual({ code: 0, signal: null });
  await untilNothingRuns(dataDir, url);
});

test("Neither the server nor its watcher has the daemon's variables", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir, "idle", { SERVICE_TOKEN: "a-secret-of-the-daemon" });
  await urlOf(daemon);
  expect(readFileSync(`/proc/${daemon.pid}/environ`, "utf8")).toContain("a-secret-of-the-daemon");
  const pids = await processesIn(dataDir);
  expect(pids).toHaveLength(2);
  for (const pid of pids) {
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8");
    // The server writes its title over them: what is left need not be variables.
    const names = [...variables.matchAll(/(\w+)=/g)].map(([, name]) => name ?? "");
    expect(names.filter((name) => !/^(?:PATH|PWD|OLDPWD|SHLVL|_)$/.test(name))).toEqual([]);
    expect(variables).not.toContain("a-secret-of-the-daemon");
  }
});

async function serverPid(redis: ReturnType<typeof connectTo>): Promise<number> {
  const info = await redis.info("server");
  return Number(/process_id:(\d+)/.exec(info)?.[1]);
}

async function orphan(dataDir: string, server: number, daemon: number): Promise<void> {
  for (const pid of await processesIn(dataDir)) if (pid !== server) process.kill(pid, "SIGKILL");
  await waitFor(async () => (await processesIn(dataDir)).length === 1, { what: "no watcher" });
  process.kill(daemon, "SIGKILL");
}

function sessionOf(pid: number): string | undefined {
  return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[3];
}
