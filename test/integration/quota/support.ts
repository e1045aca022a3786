import { Redis } from "ioredis";
import { inject, onTestFinished } from "vitest";
import { startFleet, type Spender } from "../../../bench/fleet.ts";
import { startReceiver, strictest, type Receiver } from "../../../bench/receiver.ts";
import { RecordLine } from "../../../bench/record-line.ts";
import type { Message, Orders } from "../../../bench/spender.ts";
import {
  createQuota,
  type Quota,
  type QuotaLimits,
  type QuotaOptions,
} from "../../../src/core/quota/quota.ts";
import type { ReplyHeaders } from "../../../src/base/retry-after.ts";
import type { Permit } from "../../../src/core/quota/permit.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

export type Limits = Omit<QuotaLimits, "prefix">;

/** An hour of eight seconds. */
export const SHORT: Limits = {
  perHour: 120,
  hourMs: 8000,
  burst: 20,
  burstMs: 400,
  pacing: "auto",
  liveReserve: 0,
};

export function openRedis(url = inject("redisUrl")): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  redis.on("error", () => {}); // the command that fails rejects
  onTestFinished(() => redis.disconnect());
  return redis;
}

/**
 * A quota in this process; `logged` are the names of its log lines. Its burst window is the real
 * one: under a shorter one a permit becomes too old on a busy machine.
 */
export async function openQuota(
  limits: Partial<Limits & Pick<QuotaOptions, "setsLimits">> = {},
  prefix = uniquePrefix(),
  redis = openRedis(),
) {
  const logged: string[] = [];
  const pauses: string[] = [];
  const say = (_: object, message: string) => void logged.push(message);
  const quota: Quota = createQuota({
    ...SHORT,
    burstMs: 5000,
    setsLimits: true,
    ...limits,
    prefix,
    redis,
    log: { info: say, warn: say },
    onThrottled: () => void pauses.push("throttled"),
  });
  onTestFinished(async () => quota.disconnect());
  await quota.ready;
  return { quota, prefix, logged, pauses };
}

/** Spends a permit as the client would; the response has this status and these headers. */
export async function exchange(permit: Permit, status: number, headers: ReplyHeaders = {}) {
  permit.use();
  permit.spend();
  await permit.done({ status, headers });
}

/** Takes and spends this many permits. @returns when each was given, by `performance.now()`. */
export async function spend(
  quota: Quota,
  count: number,
  headers?: ReplyHeaders,
): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const permit = await quota.acquire("live");
    times.push(performance.now());
    await exchange(permit, 200, headers);
  }
  return times;
}

/** Whether the permit is given within this time. */
export async function isGiven(acquiring: Promise<Permit>, ms = 300): Promise<boolean> {
  const late = new Promise<false>((resolve) => {
    setTimeout(() => resolve(false), ms);
  });
  return Promise.race([acquiring.then(() => true as const), late]);
}

export interface Scene {
  readonly receiver: Receiver;
  readonly heard: Message[];
  start(count: number, each?: (index: number) => Partial<Orders>): Promise<Spender[]>;
  /** Waits until this many requests have arrived in all. */
  arrived(count: number): Promise<void>;
  /** Stages changes, for spenders that serve waiting records. */
  change(records: readonly string[]): Promise<void>;
  readonly worst: () => Worst;
}

/** The most requests that arrived in any hour, and in any burst window. */
export interface Worst {
  readonly hour: number;
  readonly burst: number;
}

/** Real processes that spend one quota on a service that counts strictly. */
export async function openScene(
  limits: Limits,
  options: {
    redisUrl?: string;
    travelMs?: () => number;
    heldMs?: number;
    policy?: "fixed" | "sliding" | "bucket";
    /** The service's clock is slower by this part: its windows are longer. */
    slowerBy?: number;
  } = {},
): Promise<Scene> {
  const { redisUrl = inject("redisUrl"), slowerBy = 0, ...rest } = options;
  const hour = { limit: limits.perHour, ms: limits.hourMs * (1 + slowerBy) };
  const burst = { limit: limits.burst, ms: limits.burstMs * (1 + slowerBy) };
  const receiver = await startReceiver({ hour, burst, ...rest });
  const spenders: Spender[] = [];
  onTestFinished(async () => {
    await Promise.all(spenders.map((spender) => spender.kill()));
    await receiver[Symbol.asyncDispose]();
  });
  const heard: Message[] = [];
  const orders: Orders = {
    redisUrl,
    serviceUrl: receiver.url,
    quota: { ...limits, prefix: uniquePrefix() },
    work: "endless",
    lane: "live",
    concurrency: 10,
    skewMs: 0,
  };
  const line = new RecordLine(openRedis(redisUrl), orders.quota);
  return {
    receiver,
    heard,
    async start(count, each) {
      const started = await startFleet(count, orders, (message) => void heard.push(message), each);
      spenders.push(...started);
      return started;
    },
    async arrived(count) {
      await waitFor(() => receiver.arrivals.length >= count, { what: `${count} requests` });
    },
    change: (records) => line.changed(records),
    worst: () => ({
      hour: strictest(receiver.arrivals, hour).most,
      burst: strictest(receiver.arrivals, burst).most,
    }),
  };
}
