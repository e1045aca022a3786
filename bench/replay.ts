/** Sends a stream of changes to real processes with a compressed clock, and measures their ages. */
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { HOUR_MS } from "../src/core/service-spec/limits.ts";
import { startFleet } from "./fleet.ts";
import { RecordLine } from "./record-line.ts";
import { startReceiver, strictest } from "./receiver.ts";
import { agesOf, type Ages } from "./simulate.ts";
import type { Message, Orders } from "./spender.ts";
import type { Change } from "./waiting-records.ts";

export interface ReplayOptions {
  readonly redisUrl: string;
  readonly quota: Orders["quota"];
  readonly processes: number;
}

export interface Figures extends Ages {
  readonly requests: number;
  /** When the last change was on the service, ms from the start. */
  readonly settledAt: number;
}

/** Ages and times at the scale of a real hour. */
export interface Replay extends Figures {
  readonly worstHour: number;
  readonly worstBurst: number;
}

/** How often due changes are staged, ms. */
const TICK_MS = 5;

export async function replay(changes: readonly Change[], options: ReplayOptions): Promise<Replay> {
  const { redisUrl, quota } = options;
  const scale = HOUR_MS / quota.hourMs;
  const hour = { limit: quota.perHour, ms: quota.hourMs };
  const burst = { limit: quota.burst, ms: quota.burstMs };
  await using receiver = await startReceiver({ hour, burst });
  const redis = new Redis(redisUrl);
  const line = new RecordLine(redis, quota);
  const pending = new Map<string, number[]>();
  const ages: number[] = [];
  let settledAt = 0;
  let startedAt = 0;

  function onMessage(message: Message): void {
    if (!("served" in message)) return;
    const { served, takenAt, doneAt } = message;
    const times = pending.get(served) ?? [];
    // Changes after the record was taken wait for its next request. In the same millisecond either may have
    // been first: without a next request, a change that waited for one would wait for ever.
    pending.set(
      served,
      times.filter((at) => at > takenAt),
    );
    for (const at of times) if (at <= takenAt) ages.push((doneAt - at) * scale);
    settledAt = doneAt;
  }

  const orders = { redisUrl, serviceUrl: receiver.url, quota, work: "waiting" } as const;
  const rest = { lane: "live", concurrency: 10, skewMs: 0 } as const;
  const fleet = await startFleet(options.processes, { ...orders, ...rest }, onMessage);
  startedAt = Date.now();
  for (let next = 0; next < changes.length; await delay(TICK_MS)) {
    const due: string[] = [];
    const now = Date.now();
    for (let change = changes[next]; change !== undefined; change = changes[next]) {
      if (startedAt + change.at / scale > now) break;
      due.push(String(change.record));
      next += 1;
    }
    for (const record of due) pending.set(record, [...(pending.get(record) ?? []), now]);
    await line.changed(due);
  }
  while ((await line.waiting()) > 0 || ages.length < changes.length) await delay(TICK_MS);
  await Promise.all(fleet.map((spender) => spender.stop()));
  redis.disconnect();
  return {
    requests: receiver.arrivals.length,
    ...agesOf(Float64Array.from(ages)),
    settledAt: (settledAt - startedAt) * scale,
    worstHour: strictest(receiver.arrivals, hour).most,
    worstBurst: strictest(receiver.arrivals, burst).most,
  };
}
