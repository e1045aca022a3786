/** Chapter "demand": what the order of service and pacing cost Redis. */
import { Redis } from "ioredis";
import { createRandom } from "../src/demo/random.ts";
import { redisScript } from "../src/ops/redis-script.ts";
import { createDemand } from "../src/quota/demand.ts";
import { Pacer } from "../src/quota/pacer.ts";
import { quotaKeys } from "../src/quota/quota-keys.ts";
import {
  BURST_REQUESTS as burst,
  HOUR_MS as hourMs,
  REQUESTS_PER_HOUR as perHour,
} from "../src/service-spec/limits.ts";
import type { Table } from "./table.ts";
import { usedBytes } from "./used-bytes.ts";

const RECORDS = 5000;
const CHANGES = 10_000;
const BATCH = 100;
const NEW_RECORDS = 20_000;
const TURNS = 3000;

/** What a waiter does between two readings of everything. */
const LOOK = new URL("../src/quota/lua/turn-wait.lua", import.meta.url);

export async function runDemand(redisUrl: string): Promise<Table> {
  const redis = new Redis(redisUrl);
  const prefix = `{bench-demand-${process.pid}}`;
  const keys = quotaKeys(prefix);
  const demand = createDemand(redis, { prefix, hourMs });
  const options = { perHour, hourMs, burst, pacing: "auto", liveReserve: 100, hourHoldMs: 60_000 };
  const pacer = new Pacer(redis, keys, { ...options, pacing: "auto" });
  const random = createRandom(1).next;
  // Few records change often, and many rarely.
  const some = (count: number) =>
    Array.from({ length: count }, () => liveRecord(Math.floor(RECORDS * random() ** 3)));
  async function change(count: number, batch: number): Promise<number> {
    const before = await scriptMicros(redis);
    for (let n = 0; n < count; n += batch) await demand.changed(some(batch));
    return ((await scriptMicros(redis)) - before) / count;
  }
  await spendAnHour(redis, prefix);
  await change(CHANGES, BATCH);
  const one = await change(CHANGES, 1);
  const batched = await change(CHANGES, BATCH);
  const before = await scriptMicros(redis);
  for (let n = 0; n < TURNS; n += 1) await pacer.takeTurn("live", `permit ${n}`);
  const turn = ((await scriptMicros(redis)) - before) / TURNS;
  const look = redisScript<number>(redis, LOOK);
  const beforeLooks = await scriptMicros(redis);
  for (let n = 0; n < TURNS; n += 1) await look([keys.pace, keys.priorities], [3600, 0.5]);
  const looked = ((await scriptMicros(redis)) - beforeLooks) / TURNS;
  const table = await redis.memory("USAGE", keys.learnt);
  const bytesBefore = await usedBytes(redis);
  for (let n = 0; n < NEW_RECORDS; n += BATCH) {
    await demand.changed(Array.from({ length: BATCH }, (_, i) => liveRecord(RECORDS + n + i)));
  }
  const bytes = ((await usedBytes(redis)) - bytesBefore) / NEW_RECORDS;
  for (const key of await redis.keys(`${prefix}*`)) await redis.del(key);
  redis.disconnect();
  const title = `Order of service and pacing (${RECORDS} records, an hour of 1,000 requests spent)`;
  return {
    title,
    rows: [
      {
        "script µs per change": one.toFixed(1),
        [`in batches of ${BATCH}`]: batched.toFixed(1),
        "script µs per turn": turn.toFixed(1),
        "script µs per look": looked.toFixed(1),
        "bytes per waiting record": Math.round(bytes),
        "bytes of the table": table ?? 0,
      },
    ],
  };
}

const liveRecord = (n: number) =>
  ({ crmCode: `BR-${String(n).padStart(8, "0")}`, lane: "live" }) as const;

/** Fills the lease log as an hour of requests does. */
async function spendAnHour(redis: Redis, prefix: string): Promise<void> {
  const { hourExpirations, hourSettings } = quotaKeys(prefix);
  const now = Date.now();
  const leases = Array.from({ length: perHour }, (_, n) => [
    now + ((n + 1) * hourMs) / perHour,
    `lease ${n}`,
  ]);
  await redis.zadd(hourExpirations, ...leases.flat());
  await redis.hset(hourSettings, { maxConcurrent: perHour, running: perHour / 2, done: 0 });
}

async function scriptMicros(redis: Redis): Promise<number> {
  const stats = await redis.info("commandstats");
  return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(stats)?.[1] ?? 0);
}
