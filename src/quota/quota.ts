/**
 * The quota: the one place that gives permits. Two lease logs keep both windows exact (the hour
 * and the burst), a gate in front of them says whose turn it is. All of it is shared through
 * Redis; docs/adr/0002 tells why it is built so.
 */
import { randomUUID } from "node:crypto";
import Bottleneck from "bottleneck";
import type { Redis, RedisOptions } from "ioredis";
import type { Lane } from "../sync/lane.ts";
import { createFeedback, type QuotaLog } from "./feedback.ts";
import { createPacer, type PacerOptions, type TakenTurn } from "./pacer.ts";
import { createLeaseLog, type Lease } from "./lease-log.ts";
import { LeaseRedis } from "./lease-redis.ts";
import { Permit } from "./permit.ts";
import { quotaKeys } from "./quota-keys.ts";
import { isStopped, stateOf, type QuotaState } from "./quota-state.ts";
import { createWaiters, passedOr } from "./waiters.ts";

export type { Permit } from "./permit.ts";
export type { QuotaState } from "./quota-state.ts";

export interface QuotaOptions extends Omit<PacerOptions, "hourHoldMs"> {
  /** Only its options are used: the quota opens connections of its own. */
  readonly redis: Redis;
  /** Hash-tagged prefix of every key, as `{crmsync}`. */
  readonly prefix: string;
  readonly log?: QuotaLog;
  /** Told when this process's answer stopped everybody. */
  readonly onPause?: (reason: "throttled") => void;
}

export interface Quota {
  /** Resolves once Redis knows the limits. */
  readonly ready: Promise<unknown>;
  /**
   * Waits for the right to one request. A waiter that gives up loses nothing: the slot under way
   * goes to the next one, live before bulk.
   * @throws the signal's reason when it was aborted first.
   */
  acquire(lane: Lane, signal?: AbortSignal): Promise<Permit>;
  state(): Promise<QuotaState>;
  /** Ends at once, whatever waits; what was spent stays in Redis, counted to its end. */
  disconnect(): Promise<void>;
}

/** A waiter looks again at least this often, since other processes change what it waits for. */
const LOOK_AGAIN_MS = 1000;

/** A grant that took longer than this is checked again before it is used. */
const LONG_GRANT_MS = 50;

const SILENT: QuotaLog = { info() {}, warn() {} };

export function createQuota(options: QuotaOptions): Quota {
  const { hourMs, burstMs, log = SILENT } = options;
  const keys = quotaKeys(options.prefix);
  const { hourHoldMs, burstHoldMs } = holdsOf(options);
  const redis = new LeaseRedis({
    ...(options.redis.options as RedisOptions & { replyMapping?: "legacy" }),
    maxRetriesPerRequest: null,
  });
  const connection = new Bottleneck.IORedisConnection({ client: redis });
  connection.on("error", troubled);
  const limiter = (id: string, maxConcurrent: number) =>
    new Bottleneck({
      id,
      maxConcurrent,
      connection,
      clearDatastore: false,
      heartbeatInterval: 1000,
    });
  const limiters = {
    hour: limiter(keys.hour, options.perHour),
    burst: limiter(keys.burst, options.burst),
  };
  for (const each of Object.values(limiters)) {
    each.on("error", troubled);
  }
  const hour = createLeaseLog(limiters.hour, redis, {
    id: keys.hour,
    limit: options.perHour,
    windowMs: hourMs,
    holdMs: hourHoldMs,
    freshMs: hourHoldMs * FRESH_PART,
  });
  const burst = createLeaseLog(limiters.burst, redis, {
    id: keys.burst,
    limit: options.burst,
    windowMs: burstMs,
    holdMs: burstHoldMs,
    freshMs: burstHoldMs * FRESH_PART,
  });
  const gate = createPacer(redis, keys, { ...options, hourHoldMs });
  const answers = createFeedback({
    redis,
    gate,
    hour,
    hourMs,
    refillMs: (options.burst * hourMs) / options.perHour,
    correcting: keys.correcting,
    log,
    onPause: options.onPause,
  });
  const waiters = createWaiters();
  const ready = Promise.all([hour.ready, burst.ready]);
  let pumping = false;
  let closed = false;

  // What was under way when the connection was closed fails, and nobody waits for it.
  function troubled(error: unknown): void {
    if (!closed) log.warn({ err: error }, "quota.redis_error");
  }

  async function pump(): Promise<void> {
    if (pumping) return;
    pumping = true;
    try {
      await ready;
      while (waiters.next() !== undefined) await serveNext();
    } catch (error) {
      waiters.rejectAll(error);
    } finally {
      pumping = false;
    }
  }

  async function serveNext(): Promise<void> {
    const change = waiters.change();
    const lane = waiters.next()?.lane ?? "bulk";
    const id = randomUUID();
    const turn = await gate.turn(lane, id);
    if (turn.kind === "wait") return passedOr(change, Math.min(turn.ms, LOOK_AGAIN_MS));
    const asked = performance.now();
    const slots = await takeSlots();
    const long = performance.now() - asked > LONG_GRANT_MS;
    const stopped = long && isStopped(await gate.look());
    const heir = waiters.next();
    // What a live change may take of the reserve is not for bulk.
    const fits = heir !== undefined && (heir.lane === lane || heir.lane === "live");
    if (stopped || !fits || !isFresh(slots)) return giveBack(slots, id, turn);
    return heir.grant(permitFor(heir.lane, slots, id, turn));
  }

  /** The hour's slot first: one that waits for it must not hold up the burst. */
  async function takeSlots(): Promise<Slots> {
    const slot = await hour.take();
    try {
      return { hour: slot, burst: await burst.take() };
    } catch (error) {
      slot.release(0);
      throw error;
    }
  }

  function permitFor(lane: Lane, slots: Slots, id: string, turn: TakenTurn): Permit {
    const grantedAt = performance.now();
    return new Permit(lane, {
      fresh: () => isFresh(slots),
      cancelled: () => quietly(giveBack(slots, id, turn)),
      unsent() {
        slots.hour.release(0);
        slots.burst.release(burstMs);
        quietly(gate.giveBack(id, turn));
      },
      async answered(answer) {
        slots.hour.release(hourMs);
        slots.burst.release(burstMs);
        const tripMs = performance.now() - grantedAt;
        await answers.learn(answer, { permitId: id, turn, tripMs }).catch(troubled);
      },
    });
  }

  function giveBack(slots: Slots, id: string, turn: TakenTurn): Promise<void> {
    slots.hour.release(0);
    slots.burst.release(0);
    return gate.giveBack(id, turn);
  }

  function quietly(work: Promise<void>): void {
    work.catch(troubled);
  }

  return {
    ready,
    acquire(lane, signal) {
      const permit = waiters.add(lane, signal);
      void pump();
      return permit;
    },
    state: async () => stateOf(await gate.look(), options),
    async disconnect() {
      closed = true;
      waiters.rejectAll(new Error("the quota is closed"));
      hour.abandon();
      burst.abandon();
      await connection.disconnect(false);
    },
  };
}

/** Reads the state without taking part, for processes that send nothing. */
export function createQuotaReader(
  redis: Redis,
  options: Omit<QuotaOptions, "redis" | "log" | "onPause">,
): () => Promise<QuotaState> {
  const gate = createPacer(redis, quotaKeys(options.prefix), { ...options, ...holdsOf(options) });
  return async () => stateOf(await gate.look(), options);
}

interface Slots {
  readonly hour: Lease;
  readonly burst: Lease;
}

function isFresh(slots: Slots): boolean {
  return slots.hour.fresh() && slots.burst.fresh();
}

/** Part of its hold at which a lease is too old to be spent; the rest is for the way to the service. */
const FRESH_PART = 0.4;

/** How much longer than its window a lease lasts when its process dies, ms: see docs/quota.md. */
function holdsOf({ hourMs, burstMs }: Pick<QuotaOptions, "hourMs" | "burstMs">) {
  const burstHoldMs = Math.min(10_000, Math.max(2000, 2 * burstMs));
  return { burstHoldMs, hourHoldMs: Math.max(2 * burstHoldMs, Math.min(60_000, hourMs / 10)) };
}
