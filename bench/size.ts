/**
 * Chapter "size": the same daemon with 10,000, 100,000 and 1,000,000 changes that wait, half of them in the
 * lane bulk, and a tenth as many dead letters. SIZES: other numbers, as "10000 300000".
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import {
  startDaemon,
  startSandbox,
  type DaemonProcess,
  type SandboxProcess,
} from "../test/support/crmsync.ts";
import { ownRedis } from "../test/support/own-redis.ts";
import { spawnCrmsync } from "../test/support/process.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { fill } from "./fill.ts";
import { callsSince, watchCalls, type SlowCall } from "./slow-calls.ts";
import type { Table } from "./table.ts";
import { usedBytes } from "./used-bytes.ts";

const SIZES = (process.env["SIZES"] ?? "10000 100000 1000000").split(" ").map(Number);
const DEAD_PART = 0.1;

/** What is served: then the hour is spent, and the daemon is at rest with its backlog. */
const SERVED = 1000;
/** With a list and the service's value lists. */
const REQUESTS = SERVED + 2;

/** Kinds of slow calls that are shown of each size. */
const SHOWN = 15;

/** How often the service is asked how much it was sent, ms. */
const ASK_MS = 500;

const REST_MS = 60_000;
const SCRAPE_MS = 15_000;
const DEADLINE_MS = 600_000;

const TARGET = { "CPU at rest %": 5, "slowest call, ms": 10 };

export async function runSize(): Promise<readonly Table[]> {
  const found = [];
  for (const size of SIZES) found.push(await measure(size));
  const slow = found.flatMap(({ size, calls }) =>
    calls.slice(0, SHOWN).map((call) => ({ changes: size, ...call })),
  );
  const title = (what: string) => `${what} (half in the lane bulk; a tenth as many dead letters)`;
  return [
    { title: title("Behaviour at size"), rows: [...found.map(({ row }) => row), targets()] },
    ...(slow.length > 0 ? [{ title: "Calls of Redis that took 1 ms or longer", rows: slow }] : []),
  ];
}

async function measure(size: number) {
  await using redis = await ownRedis({ appendfsync: "everysec" });
  await using sandbox = await startSandbox();
  const env = {
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: String(REQUESTS),
    QUOTA_BURST: "100",
    QUOTA_BURST_MS: "500",
    QUOTA_PACING: "burst",
    QUOTA_LIVE_RESERVE: "0",
  };
  const before = await usedBytes(redis.client);
  const filledFrom = await scriptMs(redis.client);
  await fill(env, { changes: size, deadLetters: 0 });
  const staged = (await scriptMs(redis.client)) - filledFrom;
  const bytes = ((await usedBytes(redis.client)) - before) / size;
  await fill(env, { changes: 0, deadLetters: Math.round(size * DEAD_PART) });
  await written(redis.client);
  await watchCalls(redis.client);
  await using daemon = await startDaemon(env);
  const spanMs = await serve(sandbox);
  const serving = await callsSince(redis.client, "served");
  const rest = await restWith(daemon, redis.client);
  const resting = await callsSince(redis.client, "at rest");
  const served = serving.scriptMs - (resting.scriptMs * spanMs) / rest.spanMs;
  await ended(["bulk", "status"], env);
  await ended(["status"], env);
  await ended(["dead", "list", "--group"], env);
  const asked = await callsSince(redis.client, "status, bulk status, dead list");
  await ended(["bulk", "cancel", "--yes"], env);
  const cancelled = await callsSince(redis.client, "bulk cancel");
  const calls = [serving, resting, asked, cancelled].flatMap(({ slow }) => slow);
  const slow = (of: (call: SlowCall) => number) => Math.max(0, ...calls.map(of)).toFixed(1);
  const row: Record<string, string | number> = {
    changes: size,
    "bytes each": Math.round(bytes),
    "script ms per staged": (staged / size).toFixed(3),
    "script ms per served": (served / SERVED).toFixed(2),
    "CPU at rest %: Redis": rest.redis.toFixed(1),
    "the daemon": rest.daemon.toFixed(1),
    "slowest call, ms: median of its kind": slow(({ medianMs }) => medianMs),
    most: slow(({ mostMs }) => mostMs),
  };
  calls.sort((a, b) => b.medianMs - a.medianMs);
  return { size, row, calls };
}

const targets = () => ({
  changes: "target",
  "bytes each": "",
  "script ms per staged": "the same",
  "script ms per served": "the same",
  "CPU at rest %: Redis": "",
  "the daemon": `both: ${TARGET["CPU at rest %"]}`,
  "slowest call, ms: median of its kind": TARGET["slowest call, ms"],
  most: "",
});

/** Resolves when Redis has rewritten its append-only file: meanwhile the disk holds up all its writes. */
function written(redis: Redis): Promise<true> {
  const isWritten = async () => {
    const info = await redis.info("persistence");
    return /^aof_rewrite_in_progress:0/m.test(info) && /^aof_pending_bio_fsync:0/m.test(info);
  };
  return waitFor(isWritten, { deadlineMs: DEADLINE_MS, what: "the append-only file is written" });
}

/** @returns how long it took until the hour was spent, ms. */
async function serve(sandbox: SandboxProcess): Promise<number> {
  const startedAt = performance.now();
  const sent = async () =>
    Object.values(await sandbox.requests()).reduce((sum, count) => sum + count, 0);
  while ((await sent()) < REQUESTS) {
    if (performance.now() - startedAt > DEADLINE_MS) throw new Error("The hour is not spent.");
    await delay(ASK_MS);
  }
  return performance.now() - startedAt;
}

/**
 * Shares of a core that Redis and the daemon take with a backlog that may not be sent.
 */
async function restWith(daemon: DaemonProcess, redis: Redis) {
  const pids = [
    Number(/^process_id:(\d+)/m.exec(await redis.info("server"))?.[1]),
    daemon.process.pid,
  ];
  const before = pids.map(cpuMs);
  const startedAt = performance.now();
  for (let passed = 0; passed < REST_MS; passed += SCRAPE_MS) {
    await delay(SCRAPE_MS);
    await daemon.metric("crmsync_quota_remaining");
    await daemon.status();
  }
  const spanMs = performance.now() - startedAt;
  const [ofRedis = 0, ofDaemon = 0] = pids.map(
    (pid, index) => (100 * (cpuMs(pid) - (before[index] ?? 0))) / spanMs,
  );
  return { redis: ofRedis, daemon: ofDaemon, spanMs };
}

/** CPU time of a process since its start, by ticks of 10 ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

async function ended(args: string[], env: Record<string, string>): Promise<void> {
  await using command = spawnCrmsync(args, { env });
  const { code } = await command.ended;
  if (code !== 0) throw new Error(`crmsync ${args.join(" ")}: ${command.stderr.join("\n")}`);
}

/** For how long Redis has run scripts, ms. */
async function scriptMs(redis: Redis): Promise<number> {
  const stats = await redis.info("commandstats");
  const times = [...stats.matchAll(/^cmdstat_(?:evalsha|eval):.*?usec=(\d+)/gm)];
  return times.reduce((sum, [, usec]) => sum + Number(usec) / 1000, 0);
}
