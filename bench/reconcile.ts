/**
 * Chapter "reconcile": a whole CRM against a whole service of the same size, with 500 planted
 * differences, at the quota of the specification. RECONCILE_SIZES: other sizes, with commas.
 */
import { once } from "node:events";
import { createWriteStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { startSandbox } from "../test/support/crmsync.ts";
import { spawnCrmsync } from "../test/support/process.ts";
import { tempDir } from "../test/support/temp-dir.ts";
import type { Table } from "./table.ts";
import { usedBytes } from "./used-bytes.ts";

const SIZES = (process.env["RECONCILE_SIZES"] ?? "100000,1000000").split(",").map(Number);
const DIFFERENCES = 500;
const CHECK_MS = 50;

type Row = Record<string, string | number>;

export async function runReconcile(redisUrl: string): Promise<Table> {
  const rows: Row[] = [];
  for (const size of SIZES) rows.push(await measure(size, redisUrl));
  return { title: `Reconcile: ${DIFFERENCES} differences, found without a daemon`, rows };
}

async function measure(size: number, redisUrl: string): Promise<Row> {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.sqlite");
  const held = join(dir.path, "held.ndjson");
  const snapshot = join(dir.path, "crm.ndjson");
  await write(held, size, () => "Luxembourg");
  const every = Math.floor(size / DIFFERENCES);
  await write(snapshot, size, (n) => (n % every === 0 ? "Wiltz" : "Luxembourg"));
  await using sandbox = await startSandbox({ db });
  await using imported = spawnCrmsync(["sandbox", "import", held, "--db", db]);
  if ((await imported.ended).code !== 0) throw new Error(imported.stderr.join("\n"));

  const redis = new Redis(redisUrl);
  try {
    const before = await usedBytes(redis);
    const started = performance.now();
    await using command = spawnCrmsync(["reconcile", snapshot, "--json"], {
      env: {
        REDIS_URL: redisUrl,
        QUEUE_PREFIX: `{bench-${process.pid}-${size}-${Date.now()}}`,
        SERVICE_BASE_URL: sandbox.url,
        SERVICE_TOKEN: sandbox.token,
        DATA_DIR: dir.path,
      },
    });
    const usage = watchUsage(command.pid, command.ended);
    if ((await command.ended).code !== 0) throw new Error(command.stderr.join("\n"));
    const seconds = (performance.now() - started) / 1000;
    const found = JSON.parse(command.stdout[0] ?? "") as {
      spent: number;
      counts: { equal: number; different: number };
    };
    return {
      records: size,
      equal: found.counts.equal,
      different: found.counts.different,
      requests: found.spent,
      seconds: Math.round(seconds),
      "CPU of the command, s": Math.round((await usage).cpuSeconds),
      "memory of the command, MiB": Math.round((await usage).peakKib / 1024),
      "memory of Redis, MiB": Math.round(((await usedBytes(redis)) - before) / 2 ** 20),
    };
  } finally {
    redis.disconnect();
  }
}

async function write(file: string, size: number, cityOf: (n: number) => string): Promise<void> {
  const out = createWriteStream(file);
  for (let n = 0; n < size; n += 1) {
    const person = {
      type: "Person",
      crmCode: `contact-${n}`,
      firstName: "Ada",
      lastName: `Muster ${n}`,
      birthDate: "1979-03-04",
      countryOfResidence: "LU",
      nationality: "LU",
      address: `${n}, rue des Vignes`,
      postalCode: "L-2345",
      city: cityOf(n),
      email: `ada.muster.${n}@example.com`,
    };
    if (!out.write(`${JSON.stringify(person)}\n`)) await once(out, "drain");
  }
  out.end();
  await once(out, "close");
}

interface Usage {
  readonly cpuSeconds: number;
  readonly peakKib: number;
}

/** Clock ticks of Linux in a second. */
const TICKS = 100;

/** What a process has used when it was last looked at. */
async function watchUsage(pid: number, ended: Promise<unknown>): Promise<Usage> {
  const hasEnded = ended.then(() => true);
  let usage: Usage = { cpuSeconds: 0, peakKib: 0 };
  while (!(await Promise.race([hasEnded, sleep(CHECK_MS, false)]))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      const peakKib = Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? usage.peakKib);
      usage = { peakKib, cpuSeconds: (Number(stat[11]) + Number(stat[12])) / TICKS };
    } catch {
      // It has ended.
    }
  }
  return usage;
}
