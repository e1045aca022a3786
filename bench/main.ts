/**
 * `npm run bench [chapter…]`: measures, prints tables, and keeps them under bench/results/.
 * The quota's hour is compressed: QUOTA_HOUR_MS and QUOTA_BURST_MS say to what.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { startEmbeddedRedis } from "../src/ops/embedded-redis.ts";
import { runIngest } from "./ingest.ts";
import { runPacing } from "./pacing.ts";
import { runQuota } from "./quota.ts";
import { keep, toMarkdown, type Table } from "./table.ts";

const hourMs = Number(process.env["QUOTA_HOUR_MS"] ?? 20_000);
const burstMs = Number(process.env["QUOTA_BURST_MS"] ?? 500);

const CHAPTERS: Readonly<Record<string, (redisUrl: string) => Promise<readonly Table[]>>> = {
  quota: async (redisUrl) => [await runQuota({ redisUrl, hourMs, burstMs })],
  pacing: async () => [runPacing()],
  ingest: async (redisUrl) => [
    await runIngest({ redisUrl }),
    await runIngest({ redisUrl, mapping: "generic" }),
  ],
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in CHAPTERS));
if (unknown.length > 0) {
  console.error(
    `No such chapter: ${unknown.join(", ")} (there are ${Object.keys(CHAPTERS).join(", ")})`,
  );
  process.exit(64);
}

const dataDir = await mkdtemp(join(tmpdir(), "crmsync-bench-"));
const redis =
  process.env["REDIS_URL"] === undefined
    ? await startEmbeddedRedis({ dataDir, log: pino({ level: "silent" }) })
    : undefined;
try {
  const url = redis?.url ?? process.env["REDIS_URL"] ?? "";
  for (const [name, run] of Object.entries(CHAPTERS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const tables = await run(url);
    keep(name, tables);
    console.log(tables.map(toMarkdown).join("\n"));
  }
} finally {
  await redis?.close();
  await rm(dataDir, { recursive: true, force: true });
}
