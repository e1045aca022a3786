/**
 * A process that sends as many requests as its quota permits. Its orders are JSON in `SPENDER`; its
 * parent sends commands over IPC.
 */
import { Redis } from "ioredis";
import { createServiceClient } from "../src/core/service/client.ts";
import { createQuota, type QuotaLimits } from "../src/core/quota/quota.ts";
import type { Lane } from "../src/core/event/lane.ts";

export interface Orders {
  readonly redisUrl: string;
  readonly serviceUrl: string;
  readonly quota: QuotaLimits;
  /** `endless`: there is always something to send; `waiting`: the records that wait in Redis. */
  readonly work: "endless" | "waiting";
  readonly lane: Lane;
  readonly concurrency: number;
  /** How far the clock of this process is ahead, ms. */
  readonly skewMs: number;
}

/** `block`: block the event loop this long, ms. */
export type Command = { readonly block: number } | { readonly stop: true };

export type Message =
  | { readonly ready: true }
  | { readonly log: string }
  /** A served record: when it was taken, and when it was on the service. */
  | { readonly served: string; readonly takenAt: number; readonly doneAt: number }
  | { readonly waits: readonly number[]; readonly cpuMs: number };

const orders = JSON.parse(process.env["SPENDER"] ?? "{}") as Orders;
if (orders.skewMs !== 0) {
  const { now } = Date;
  Date.now = () => now() + orders.skewMs;
}
const send = (message: Message) => void process.send?.(message);

const redis = new Redis(orders.redisUrl, { maxRetriesPerRequest: null });
redis.on("error", () => {});
const say = (_: object, message: string) => send({ log: message });
const quota = createQuota({
  ...orders.quota,
  redis,
  setsLimits: true,
  log: { info: say, warn: say },
});
const client = createServiceClient({
  baseUrl: orders.serviceUrl,
  token: () => "token",
  timeoutMs: 30_000,
});
/** Undefined: there is always something to send. */
const line =
  orders.work === "waiting"
    ? new (await import("./record-line.ts")).RecordLine(redis, orders.quota)
    : undefined;
const stop = new AbortController();
const running = new Set<Promise<void>>();
const waits: number[] = [];

/** How often an idle process checks for work, ms. */
const IDLE_MS = 5;

process.on("message", (command: Command) => {
  if ("stop" in command) stop.abort();
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, command.block);
});
process.on("disconnect", () => process.exit());

async function spend(): Promise<void> {
  if ((await line?.due()) === 0) return pause();
  if (running.size >= orders.concurrency) return Promise.race(running);
  const asked = performance.now();
  const permit = await quota.acquire(orders.lane, stop.signal);
  waits.push(performance.now() - asked);
  // Another process may have been faster.
  const taken = await line?.take();
  if (line !== undefined && taken === undefined) return permit.cancel();
  const record = taken?.crmCode ?? "record";
  const takenAt = Date.now();
  const run = client.get(permit, record).then(async (reply) => {
    const isSent = reply.kind === "found";
    if (taken !== undefined) await line?.settle(taken, isSent);
    running.delete(run);
    if (isSent) send({ served: record, takenAt, doneAt: Date.now() });
  });
  running.add(run);
}

async function pause(): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, IDLE_MS);
  });
}

await quota.ready;
send({ ready: true });
while (!stop.signal.aborted) {
  try {
    await spend();
  } catch (error) {
    if (!stop.signal.aborted) send({ log: String(error) });
  }
}
await Promise.all(running);
const { user, system } = process.cpuUsage();
send({ waits, cpuMs: (user + system) / 1000 });
await quota.disconnect();
await client.close();
redis.disconnect();
process.disconnect?.();
