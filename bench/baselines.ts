/**
 * The usual limiters, for comparison: Bottleneck with two refreshing reservoirs, and BullMQ's own
 * limiter. Takes the same orders and sends the same messages as `spender.ts`.
 */
import Bottleneck from "bottleneck";
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import type { Command, Message, Orders } from "./spender.ts";

export interface BaselineOrders extends Orders {
  readonly limiter: "reservoirs" | "bullmq";
}

const orders = JSON.parse(process.env["SPENDER"] ?? "{}") as BaselineOrders;
const { quota } = orders;
if (orders.skewMs !== 0) {
  const { now } = Date;
  Date.now = () => now() + orders.skewMs;
}
const send = (message: Message) => void process.send?.(message);
const waits: number[] = [];

async function request(): Promise<void> {
  const response = await fetch(`${orders.serviceUrl}/record`);
  await response.arrayBuffer();
}

function startReservoirs(): () => Promise<void> {
  const limiter = (name: string, reservoir: number, interval: number) =>
    new Bottleneck({
      id: `${quota.prefix}:${name}`,
      reservoir,
      reservoirRefreshAmount: reservoir,
      reservoirRefreshInterval: interval,
      datastore: "ioredis",
      Redis,
      clientOptions: orders.redisUrl,
      clearDatastore: false,
      heartbeatInterval: 50,
    });
  const hour = limiter("hour", quota.perHour, quota.hourMs);
  const burst = limiter("burst", quota.burst, quota.burstMs);
  const stop = new AbortController();
  const loop = async () => {
    while (!stop.signal.aborted) {
      const asked = performance.now();
      await hour.schedule(() =>
        burst.schedule(async () => {
          waits.push(performance.now() - asked);
          if (!stop.signal.aborted) await request();
        }),
      );
    }
  };
  for (let i = 0; i < orders.concurrency; i += 1) void loop().catch(() => {});
  return async () => {
    stop.abort();
    await Promise.all([hour.disconnect(false), burst.disconnect(false)]);
  };
}

/** BullMQ's limiter has one window: the burst. */
function startBullmq(): () => Promise<void> {
  const connection = new Redis(orders.redisUrl, { maxRetriesPerRequest: null });
  const common = { connection, prefix: quota.prefix };
  const queue = new Queue("bench", common);
  const backlog = Array.from({ length: 5000 }, () => ({ name: "send", data: {} }));
  void queue.addBulk(backlog);
  let last = performance.now();
  const worker = new Worker(
    "bench",
    async () => {
      waits.push(performance.now() - last);
      await request();
      last = performance.now();
    },
    {
      ...common,
      concurrency: orders.concurrency,
      limiter: { max: quota.burst, duration: quota.burstMs },
    },
  );
  return async () => {
    await worker.close(true);
    await queue.close();
    connection.disconnect();
  };
}

const end = orders.limiter === "bullmq" ? startBullmq() : startReservoirs();
process.on("message", (command: Command) => {
  if (!("stop" in command)) return;
  const { user, system } = process.cpuUsage();
  send({ waits, cpuMs: (user + system) / 1000 });
  void end().finally(() => process.exit());
});
process.on("disconnect", () => process.exit());
send({ ready: true });
