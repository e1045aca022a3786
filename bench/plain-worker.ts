/**
 * The worker that an engineer writes without crmsync, for comparison: a BullMQ job for each event,
 * Bottleneck with two refreshing reservoirs, POST, and PUT on 409; a 429 waits as Retry-After says.
 */
import Bottleneck from "bottleneck";
import { UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";
import { setTimeout as sleep } from "node:timers/promises";
import { API_PREFIX } from "../src/core/service-spec/limits.ts";
import type { PlainOrders } from "./contenders.ts";

const CONCURRENCY = 5;

const orders = JSON.parse(process.env["PLAIN_WORKER"] ?? "{}") as PlainOrders;
const { quota, service } = orders;
const reservoir = (amount: number, intervalMs: number) =>
  new Bottleneck({
    reservoir: amount,
    reservoirRefreshAmount: amount,
    reservoirRefreshInterval: intervalMs,
    // Bottleneck looks every 5 s otherwise, which is the length of a burst on a clock that is not compressed.
    heartbeatInterval: Math.min(5000, intervalMs / 2),
  });
const hour = reservoir(quota.perHour, quota.hourMs);
const burst = reservoir(quota.burst, quota.burstMs);

async function request(method: string, path: string, body: unknown): Promise<Response> {
  const send = async () => {
    const response = await fetch(`${service.url}${API_PREFIX}/business-relations${path}`, {
      method,
      headers: { authorization: `Bearer ${service.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(orders.timeoutMs),
    });
    await response.arrayBuffer();
    return response;
  };
  return hour.schedule(() => burst.schedule(send));
}

async function upsert(record: { crmCode: string }): Promise<void> {
  let response = await request("POST", "", record);
  if (response.status === 409) {
    response = await request("PUT", `/${encodeURIComponent(record.crmCode)}`, record);
  }
  if (response.ok) return;
  if (response.status === 429) await sleep(Number(response.headers.get("retry-after")) * 1000);
  if (response.status === 400) throw new UnrecoverableError("400");
  throw new Error(String(response.status));
}

const worker = new Worker<{ crmCode: string }>(orders.queue, (job) => upsert(job.data), {
  connection: new Redis(orders.redisUrl, { maxRetriesPerRequest: null }),
  prefix: orders.prefix,
  concurrency: CONCURRENCY,
});
worker.on("error", () => {});
await worker.waitUntilReady();
process.stdout.write("ready\n");
