/**
 * The quota: the one place that gives permits. Two lease logs keep both windows exact (the hour
 * and the burst); a pacer before them decides when the next request may start. All of it is shared
 * through Redis; docs/adr/0002 explains why it is built this way.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../ops/redis-reading.ts";
import type { Lane } from "../sync/lane.ts";
import { createFeedback, type QuotaLog } from "./feedback.ts";
import { PermitIssuer } from "./issue-permits.ts";
import { holdsOf, LeasePair } from "./lease-pair.ts";
import { Pacer } from "./pacer.ts";
import type { Permit } from "./permit.ts";
import { quotaKeys } from "./quota-keys.ts";
import { stateOf, type QuotaState } from "./quota-state.ts";
import { snapshotReading, type PacingSetting } from "./snapshot.ts";
import { createWaiters } from "./waiters.ts";

export type { Permit } from "./permit.ts";
export type { QuotaState } from "./quota-state.ts";

export interface QuotaLimits {
  /** Hash-tagged prefix of every key, as `{crmsync}`. */
  readonly prefix: string;
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  readonly pacing: PacingSetting;
  /** Requests of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

export interface QuotaOptions extends QuotaLimits {
  /** Only its options are used: the quota opens a connection of its own. */
  readonly redis: Redis;
  /** Whether these limits are to hold for all processes; if not, limits that are in Redis hold. */
  readonly setsLimits: boolean;
  readonly log?: QuotaLog;
  /** Called when a 429 to this process stops all processes. */
  readonly onThrottled?: () => void;
}

export interface Quota {
  /** Resolves when Redis knows the limits. */
  readonly ready: Promise<unknown>;
  /**
   * Waits for the right to one request. An abort loses no slot: it goes to the next waiter, live
   * before bulk.
   * @throws the signal's reason when it is aborted first.
   */
  acquire(lane: Lane, signal?: AbortSignal): Promise<Permit>;
  state(): Promise<QuotaState>;
  /** Ends at once and rejects all waiters. Spent requests stay counted in Redis. */
  disconnect(): Promise<void>;
}

const SILENT: QuotaLog = { info() {}, warn() {} };

export function createQuota(options: QuotaOptions): Quota {
  const { hourMs, burstMs, log = SILENT } = options;
  const keys = quotaKeys(options.prefix);
  let closed = false;
  const onError = (error: unknown) => {
    // Commands that fail because the connection was closed are expected.
    if (!closed) log.warn({ err: error }, "quota.redis_error");
  };
  const leases = new LeasePair(options, onError);
  const pacer = new Pacer(leases.redis, keys, { ...options, ...holdsOf(options) });
  const feedback = createFeedback({
    redis: leases.redis,
    pacer,
    hour: leases.hour,
    hourMs,
    refillMs: (options.burst * hourMs) / options.perHour,
    correcting: keys.correcting,
    log,
    onThrottled: options.onThrottled,
    onError,
  });
  const waiters = createWaiters();
  leases.redis.isWaiting = () => waiters.next() !== undefined || leases.isWaiting();
  const issuer = new PermitIssuer({
    waiters,
    pacer,
    leases,
    feedback,
    hourMs,
    burstMs,
    onError,
  });

  return {
    ready: leases.ready,
    acquire(lane, signal) {
      const permit = waiters.add(lane, signal);
      void issuer.run();
      return permit;
    },
    state: async () => stateOf(await pacer.snapshot(), options),
    async disconnect() {
      closed = true;
      waiters.rejectAll(new Error("the quota is closed"));
      await leases.disconnect();
    },
  };
}

/** Reads the state of the quota, for processes that send nothing. */
export function quotaReading(limits: QuotaLimits): Reading<QuotaState> {
  const options = { ...limits, ...holdsOf(limits) };
  const { command, meaning } = snapshotReading(quotaKeys(limits.prefix), options);
  return { command, meaning: (reply) => stateOf(meaning(reply), limits) };
}
