/**
 * Chapter "quota": several processes with an endless backlog, a receiver that counts every window,
 * and an hour of a few seconds.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import type { BaselineOrders } from "./baselines.ts";
import { startSpender, type Spender } from "./fleet.ts";
import { startReceiver, strictest } from "./receiver.ts";
import type { Orders } from "./spender.ts";
import type { Table } from "./table.ts";

export interface QuotaBenchOptions {
  readonly redisUrl: string;
  readonly hourMs: number;
  readonly burstMs: number;
}

const PER_HOUR = 300;
const BURST = 20;
const PROCESSES = 3;
const HOURS = 3;

/** Time on the network of a request, and again of its response, ms. */
const TRAVEL_MS = 10;

interface Contender {
  readonly name: string;
  readonly limiter?: BaselineOrders["limiter"];
}

const CONTENDERS: readonly Contender[] = [
  { name: "crmsync: sliding log" },
  { name: "Bottleneck: two refreshing reservoirs", limiter: "reservoirs" },
  { name: "BullMQ: its own limiter (burst window only)", limiter: "bullmq" },
];

const BASELINES = new URL("baselines.ts", import.meta.url);

export async function runQuota(options: QuotaBenchOptions): Promise<Table> {
  const rows: Record<string, string | number>[] = [];
  for (const contender of CONTENDERS) rows.push(await measure(contender, options));
  const title = `Quota (${PROCESSES} processes, ${HOURS} hours of ${options.hourMs / 1000} s, ${PER_HOUR} per hour, ${BURST} per ${options.burstMs} ms)`;
  return { title, rows };
}

async function measure(contender: Contender, options: QuotaBenchOptions) {
  const { redisUrl, hourMs, burstMs } = options;
  const hour = { limit: PER_HOUR, ms: hourMs };
  const burst = { limit: BURST, ms: burstMs };
  const redis = new Redis(redisUrl);
  await using receiver = await startReceiver({ hour, burst, travelMs: () => TRAVEL_MS });
  const orders = ordersFor(contender, options, receiver.url);
  const fleet = await Promise.all(
    Array.from({ length: PROCESSES }, () => startContender(contender, orders)),
  );
  const before = await redisWork(redis);
  await delay(HOURS * hourMs);
  const after = await redisWork(redis);
  const reports = await Promise.all(fleet.map((spender) => spender.stop()));
  for (const key of await redis.keys(`*bench-${process.pid}-*`)) await redis.del(key);
  redis.disconnect();
  const [first = 0] = receiver.arrivals;
  const counted = receiver.arrivals.filter((at) => at < first + HOURS * hourMs).length;
  const waits = reports.flatMap((report) => report.waits).sort((a, b) => a - b);
  const wait = (part: number) => Math.round(waits[Math.floor(part * waits.length)] ?? 0);
  const cpuMs = reports.reduce((sum, report) => sum + report.cpuMs, 0);
  const [inHour, inBurst] = [hour, burst].map((window) => strictest(receiver.arrivals, window));
  return {
    limiter: contender.name,
    "over the hour (most)": `${inHour?.violations} (${inHour?.most})`,
    "over the burst (most)": `${inBurst?.violations} (${inBurst?.most})`,
    "use of the hour %": ((100 * counted) / (HOURS * PER_HOUR)).toFixed(1),
    "wait p50 ms": wait(0.5),
    "wait p99 ms": wait(0.99),
    "Redis calls per permit": ((after.calls - before.calls) / counted).toFixed(1),
    "Redis ms per permit": ((after.ms - before.ms) / counted).toFixed(2),
    "CPU ms per permit": (cpuMs / counted).toFixed(1),
  };
}

function ordersFor(
  { limiter }: Contender,
  { redisUrl, hourMs, burstMs }: QuotaBenchOptions,
  serviceUrl: string,
): Orders {
  return {
    redisUrl,
    serviceUrl,
    quota: {
      prefix: `{bench-${process.pid}-${limiter ?? "crmsync"}}`,
      perHour: PER_HOUR,
      hourMs,
      burst: BURST,
      burstMs,
      pacing: "auto",
      liveReserve: 0,
    },
    work: "endless",
    lane: "live",
    concurrency: 10,
    skewMs: 0,
  };
}

interface Trouble {
  readonly name: string;
  readonly heldMs?: number;
  readonly skewMs?: number;
}

const MINUTE_MS = 60_000;

/** The first one is the baseline of the others. */
const TROUBLES: readonly Trouble[] = [
  { name: "none" },
  { name: "a gateway holds bursts for 3 s, and passes them on at once", heldMs: 3000 },
  { name: "clocks of the processes 10 min ahead and behind", skewMs: 10 * MINUTE_MS },
];

/** One hour under each trouble, with bursts from the start: crmsync beside the usual limiter. */
export async function runQuotaInTrouble(options: QuotaBenchOptions): Promise<Table> {
  const rows: Record<string, string | number>[] = [];
  for (const trouble of TROUBLES) {
    for (const contender of CONTENDERS.slice(0, 2)) {
      rows.push(await measureIn(trouble, contender, options));
    }
  }
  const title = `Quota in trouble (${PROCESSES} processes, one hour of ${options.hourMs / 1000} s, the service counts strictly)`;
  return { title, rows };
}

async function measureIn(trouble: Trouble, contender: Contender, options: QuotaBenchOptions) {
  const { hourMs, burstMs } = options;
  const { name, heldMs = 0, skewMs = 0 } = trouble;
  const hour = { limit: PER_HOUR, ms: hourMs };
  const burst = { limit: BURST, ms: burstMs };
  await using receiver = await startReceiver({
    hour,
    burst,
    policy: "sliding",
    travelMs: () => TRAVEL_MS,
    ...(heldMs > 0 && { heldMs }),
  });
  const orders = ordersFor(contender, options, receiver.url);
  // What one run has left in Redis must not count in the next one.
  const prefix = `{bench-${process.pid}-${contender.limiter ?? "crmsync"}-${heldMs}-${skewMs}}`;
  const quota = { ...orders.quota, prefix, pacing: "burst" } as const;
  const fleet = await Promise.all(
    Array.from({ length: PROCESSES }, (_, index) =>
      startContender(contender, { ...orders, quota, skewMs: (index - 1) * skewMs }),
    ),
  );
  await delay(hourMs);
  await Promise.all(fleet.map((spender) => spender.kill()));
  const throttled = receiver.throttled();
  const [inHour, inBurst] = [hour, burst].map((window) => strictest(receiver.arrivals, window));
  return {
    trouble: name,
    limiter: contender.name,
    "429s": throttled,
    "most in the hour": inHour?.most ?? 0,
    "most in the burst": inBurst?.most ?? 0,
    "use of the hour %": ((100 * (receiver.arrivals.length - throttled)) / PER_HOUR).toFixed(1),
  };
}

function startContender({ limiter }: Contender, orders: Orders): Promise<Spender> {
  if (limiter === undefined) return startSpender(orders);
  const baselineOrders: BaselineOrders = { ...orders, limiter };
  return startSpender(baselineOrders, undefined, BASELINES);
}

/** Calls of scripts since Redis started, and its CPU time. */
async function redisWork(redis: Redis): Promise<{ calls: number; ms: number }> {
  const stats = await redis.info("commandstats");
  const server = await redis.info("cpu");
  const scripts = [...stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)];
  const cpu = [...server.matchAll(/used_cpu_(?:user|sys):([\d.]+)/g)];
  const sum = (found: RegExpExecArray[]) => found.reduce((all, match) => all + Number(match[1]), 0);
  return { calls: sum(scripts), ms: 1000 * sum(cpu) };
}
