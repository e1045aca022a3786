/**
 * Chapter "rss": what a daemon takes of the memory of its machine, started from the package as users
 * install it. Redis and the service are processes of their own.
 */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startSandbox } from "../test/support/crmsync.ts";
import { spawnCommand } from "../test/support/process.ts";
import { tempDir } from "../test/support/temp-dir.ts";
import { eventOf, post } from "./ingest.ts";
import type { Table } from "./table.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");

/** Events a second, one per request. */
const RATE = 100;
const LOAD_S = 30;
const IDLE_S = 60;
const START_DEADLINE_MS = 90_000;

/** What the daemon cannot do without, and nothing else. */
const LIBRARIES = `
  await Promise.all(["ioredis", "bullmq", "fastify"].map((name) => import(name)));
  setInterval(() => {}, 1e9);
  console.log("{}");
`;

/** Settings of the C library, as the image and the unit for systemd have them. */
const ALLOCATOR = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };

interface Memory {
  /** Resident, MB. */
  readonly rss: number;
  /** The same, with each page that several processes share divided among them, MB. */
  readonly pss: number;
}

export async function runRss(redisUrl: string): Promise<Table> {
  await using dir = await tempDir();
  const folder = installPackage(dir.path);
  await using sandbox = await startSandbox();
  const env = {
    REDIS_URL: redisUrl,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    HTTP_PORT: "0",
    INGEST_AUTH: "none",
    LOG_LEVEL: "error",
    DATA_DIR: join(dir.path, "data"),
  };
  const plain = await measureDaemon(folder, env);
  const mapping = await measureDaemon(folder, { ...env, MAPPING: "generic" });
  const tuned = await measureDaemon(folder, { ...env, ...ALLOCATOR });
  const libraries = await measureLibraries(folder);
  const row = (what: string, { rss, pss }: Memory, target: number | string) => ({
    what,
    "RSS, MB": Math.round(rss),
    "PSS, MB": Math.round(pss),
    target,
  });
  return {
    title: `Memory of the daemon from the package: idle after ${IDLE_S} s, the peak at ${RATE} events/s`,
    rows: [
      row("only ioredis, bullmq and fastify, imported by Node (lower bound)", libraries, ""),
      row("idle", plain.idle, 100),
      row("under load, payloads that are ready", plain.load, 120),
      row("idle with a mapping file", mapping.idle, 140),
      row("under load with a mapping file", mapping.load, ""),
      row("idle, with the image's settings of malloc", tuned.idle, 100),
      row("under load, with the image's settings of malloc", tuned.load, 120),
    ],
  };
}

/** @returns the folder in which `npm install` has put the package. */
function installPackage(dir: string): string {
  const npm = (args: readonly string[], cwd: string) =>
    execFileSync("npm", args, { cwd, stdio: ["ignore", "ignore", "inherit"] });
  npm(["pack", "--silent", "--pack-destination", dir], PROJECT_DIR);
  const [tarball = ""] = globSync("*.tgz", { cwd: dir });
  npm(["install", "--silent", "--ignore-scripts", "--prefix", dir, join(dir, tarball)], dir);
  return dir;
}

async function measureDaemon(folder: string, env: Record<string, string>) {
  await using daemon = spawnCommand(
    join(folder, "node_modules/.bin/crmsync"),
    ["start", "--json"],
    {
      env: { ...env, QUEUE_PREFIX: `{bench-${process.pid}-${Date.now()}}` },
    },
  );
  const [line] = await daemon.line(/^\{.*"url".*\}$/, START_DEADLINE_MS);
  const { url } = JSON.parse(line) as { url: string };
  await sleep(IDLE_S * 1000);
  const idle = memoryOf(daemon.pid);
  return { idle, load: await peakUnderLoad(url, daemon.pid) };
}

async function peakUnderLoad(url: string, pid: number): Promise<Memory> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  let peak: Memory = { rss: 0, pss: 0 };
  const watching = setInterval(() => {
    const now = memoryOf(pid);
    if (now.rss > peak.rss) peak = now;
  }, 500);
  try {
    const begun = performance.now();
    const sent: Promise<number>[] = [];
    for (let n = 0; n < RATE * LOAD_S; n += 1) {
      const early = begun + (n / RATE) * 1000 - performance.now();
      if (early > 1) await sleep(early);
      sent.push(post(url, agent, eventOf(n)));
    }
    await Promise.all(sent);
    return peak;
  } finally {
    clearInterval(watching);
    agent.destroy();
  }
}

async function measureLibraries(folder: string): Promise<Memory> {
  // As a module of the package, it finds the packages that the daemon loads.
  await using bare = spawnCommand(process.execPath, ["--input-type=module", "--eval", LIBRARIES], {
    cwd: join(folder, "node_modules/crmsync"),
  });
  await bare.line(/^\{\}$/, START_DEADLINE_MS);
  await sleep(1000);
  return memoryOf(bare.pid);
}

function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const megabytes = (name: string) =>
    (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) * 1024) / 1e6;
  return { rss: megabytes("Rss"), pss: megabytes("Pss") };
}
