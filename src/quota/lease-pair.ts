/**
 * The two lease logs of the quota, for the hour and for the burst, on a Redis connection of their
 * own. Together they are the limit: a request needs a slot of both.
 */
import { setTimeout as sleep } from "node:timers/promises";
import Bottleneck from "bottleneck";
import type { Redis, RedisOptions } from "ioredis";
import { createLeaseLog, type Lease, type LeaseLog } from "./lease-log.ts";
import { LeaseRedis } from "./lease-redis.ts";
import { quotaKeys } from "./quota-keys.ts";

export interface Slots {
  readonly hour: Lease;
  readonly burst: Lease;
}

export interface LeasePairOptions {
  /** Only its options are used. */
  readonly redis: Redis;
  readonly prefix: string;
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  readonly setsLimits: boolean;
}

/** How long a slot of the burst waits for one of the hour, when both were asked for at once, ms. */
const BOTH_MS = 50;

/** Pause after a failed try to write the leases of this process again, ms. */
const RESTORE_AGAIN_MS = 500;

/** Part of its hold at which a lease is too old to be spent; the rest is for the way to the service. */
const FRESH_PART = 0.4;

export class LeasePair {
  readonly redis: LeaseRedis;
  readonly hour: LeaseLog;
  /** Resolves when Redis knows both limits. */
  readonly ready: Promise<unknown>;
  readonly #burst: LeaseLog;
  readonly #connection: Bottleneck.IORedisConnection;
  /** From when on the burst's log cannot lack a lease that still counts, by performance.now(). */
  #trustedFrom = 0;
  #connections = 0;

  constructor(options: LeasePairOptions, onError: (error: unknown) => void) {
    const { perHour, hourMs, burst, burstMs, setsLimits } = options;
    const { hourHoldMs, burstHoldMs } = holdsOf(options);
    const keys = quotaKeys(options.prefix);
    this.redis = new LeaseRedis({
      ...(options.redis.options as RedisOptions & { replyMapping?: "legacy" }),
      maxRetriesPerRequest: null,
      // Bottleneck never connects a lazy client itself.
      lazyConnect: false,
    });
    this.redis.beginsAgain = setsLimits;
    this.redis.on("close", () => (this.#trustedFrom = Number.POSITIVE_INFINITY));
    this.redis.on("ready", () => {
      if (this.#trustedFrom > 0) void this.#trustAgain(burstMs, onError);
    });
    // As after FLUSHALL, which closes no connection.
    this.redis.onForgotten = (id, isGone) => {
      const log = id === keys.hour ? this.hour : this.#burst;
      if (this.#trustedFrom === Number.POSITIVE_INFINITY || !(isGone || log.hasLeases())) return;
      this.#trustedFrom = Number.POSITIVE_INFINITY;
      void this.#trustAgain(burstMs, onError);
    };
    this.#connection = new Bottleneck.IORedisConnection({ client: this.redis });
    this.#connection.on("error", onError);

    const openLog = (id: string, limit: number, windowMs: number, holdMs: number) => {
      const limiter = new Bottleneck({
        id,
        maxConcurrent: limit,
        connection: this.#connection,
        clearDatastore: false,
        heartbeatInterval: 1000,
      });
      limiter.on("error", onError);
      const freshMs = holdMs * FRESH_PART;
      const log = { id, limit, setsLimit: setsLimits, windowMs, holdMs, freshMs, onError };
      return createLeaseLog(limiter, this.redis, log);
    };
    this.hour = openLog(keys.hour, perHour, hourMs, hourHoldMs);
    this.#burst = openLog(keys.burst, burst, burstMs, burstHoldMs);
    this.ready = Promise.all([this.hour.ready, this.#burst.ready]);
    // A failure must not end the process with an unhandled rejection: a command that needs no permit
    // never awaits this promise. Code that awaits it still gets the error.
    this.ready.catch(() => {});
  }

  /**
   * Redis may have forgotten leases: somebody has emptied it, or another Redis answers after a reconnection
   * and lacks the newest ones. Each process writes its own leases again, and waits until the others have done
   * so. Meanwhile the leases of a dead process leave the burst's window.
   */
  async #trustAgain(burstMs: number, onError: (error: unknown) => void): Promise<void> {
    const connection = (this.#connections += 1);
    while (connection === this.#connections && this.redis.status !== "end") {
      try {
        await Promise.all([this.hour.restore(), this.#burst.restore()]);
        if (connection === this.#connections) this.#trustedFrom = performance.now() + burstMs;
        return;
      } catch (error) {
        // As after a failover, while it still rejects writes.
        onError(error);
        await sleep(RESTORE_AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /** For how long no permit may be given, because Redis may have forgotten leases, ms. */
  untrustedMs(): number {
    return this.#trustedFrom - performance.now();
  }

  /** Waits for a slot of the hour, then of the burst: waiting for the hour must not block a burst. */
  async take(): Promise<Slots> {
    return this.#withBurst(await this.hour.take(), this.#burst.take());
  }

  /** As `take`, for when the hour has many slots left: asks for both at once. */
  async takeBoth(): Promise<Slots> {
    const taking = this.hour.take();
    const burst = this.#burst.take();
    burst.catch(() => {}); // awaited below
    const hour = await Promise.race([taking, sleep(BOTH_MS, undefined, { ref: false })]).catch(
      () => undefined,
    );
    if (hour !== undefined) return this.#withBurst(hour, burst);
    burst.then((slot) => slot.release(0)).catch(() => {});
    return this.#withBurst(await taking, this.#burst.take());
  }

  async #withBurst(hour: Lease, burst: Promise<Lease>): Promise<Slots> {
    try {
      return { hour, burst: await burst };
    } catch (error) {
      hour.release(0);
      throw error;
    }
  }

  /** Whether anything of this process waits for a slot. */
  isWaiting(): boolean {
    return this.hour.isWaiting() || this.#burst.isWaiting();
  }

  /** Ends at once; spent slots stay in Redis until their windows have passed. */
  async disconnect(): Promise<void> {
    this.hour.abandon();
    this.#burst.abandon();
    await this.#connection.disconnect(false);
  }
}

export function areFresh(slots: Slots): boolean {
  return slots.hour.fresh() && slots.burst.fresh();
}

/** How much longer than its window a lease lasts when its process dies, ms: see docs/quota.md. */
export function holdsOf({ hourMs, burstMs }: Pick<LeasePairOptions, "hourMs" | "burstMs">) {
  const burstHoldMs = Math.min(20_000, Math.max(2000, 4 * burstMs));
  return { burstHoldMs, hourHoldMs: Math.max(2 * burstHoldMs, Math.min(60_000, hourMs / 10)) };
}
