/**
 * `npm run bench [chapter…]`: measures, prints tables and saves them in bench/results/. The quota's
 * hour is compressed: QUOTA_HOUR_MS (default 20 s) and QUOTA_BURST_MS (default 500 ms).
 */
import { constants } from "node:os";
import { ownRedis } from "../test/support/own-redis.ts";
import { runBurst } from "./burst.ts";
import { runCompare } from "./compare.ts";
import { runConsole } from "./console.ts";
import { runFailover } from "./failover.ts";
import { runHistory } from "./history.ts";
import { runIdle } from "./idle.ts";
import { runIngest } from "./ingest.ts";
import { runLatency } from "./latency.ts";
import { runMemory } from "./memory.ts";
import { runPacing } from "./pacing.ts";
import { runReconcile } from "./reconcile.ts";
import { runQuota, runQuotaInTrouble } from "./quota.ts";
import { runSize } from "./size.ts";
import { runRss } from "./rss.ts";
import { runStaging } from "./staging.ts";
import { readSetting, saveResults, toMarkdown, type Table } from "./table.ts";

const hourMs = Number(process.env["QUOTA_HOUR_MS"] ?? 20_000);
const burstMs = Number(process.env["QUOTA_BURST_MS"] ?? 500);

const CHAPTERS: Readonly<Record<string, (redisUrl: string) => Promise<readonly Table[]>>> = {
  quota: async (redisUrl) => [
    await runQuota({ redisUrl, hourMs, burstMs }),
    await runQuotaInTrouble({ redisUrl, hourMs, burstMs }),
  ],
  pacing: async (redisUrl) => runPacing(redisUrl),
  ingest: async (redisUrl) => [
    await runIngest({ redisUrl }),
    await runIngest({ redisUrl, mapping: "generic" }),
    await runHistory(redisUrl),
    await runStaging(redisUrl),
  ],
  idle: () => runIdle(),
  latency: async (redisUrl) => [await runLatency(redisUrl)],
  memory: runMemory,
  rss: async (redisUrl) => [await runRss(redisUrl)],
  failover: async () => [await runFailover()],
  console: async (redisUrl) => [await runConsole(redisUrl)],
  reconcile: async (redisUrl) => [await runReconcile(redisUrl)],
  burst: async (redisUrl) => [await runBurst(redisUrl)],
  size: () => runSize(),
  compare: async (redisUrl) => [await runCompare(redisUrl)],
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in CHAPTERS));
if (unknown.length > 0) {
  console.error(
    `No such chapter: ${unknown.join(", ")}. Chapters: ${Object.keys(CHAPTERS).join(", ")}`,
  );
  process.exit(64);
}

// The processes that it has started end with this one's exit, which a signal alone does not bring about.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

const given = process.env["REDIS_URL"];
await using own = given === undefined ? await ownRedis() : null;
for (const [name, run] of Object.entries(CHAPTERS)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const setting = readSetting();
  const tables = await run(given ?? own?.url ?? "");
  saveResults(name, { ...setting, tables });
  console.log(tables.map(toMarkdown).join("\n"));
}
