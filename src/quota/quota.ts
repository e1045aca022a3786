/**
 * The quota: the one place that gives permits. Each call goes through the limiter of this process
 * (gate.ts); then the pacer decides when the next request may start, and the sliding log keeps both
 * windows exact over all processes. docs/adr/0002 explains why it is built this way.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../ops/redis-reading.ts";
import type { Lane } from "../event/lane.ts";
import { createFeedback, type QuotaLog } from "./feedback.ts";
import { createGate } from "./gate.ts";
import { PermitIssuer } from "./issue-permits.ts";
import type { PacingSetting } from "./pace-state.ts";
import { Pacer } from "./pacer.ts";
import type { Permit } from "./permit.ts";
import { quotaKeys } from "./quota-keys.ts";
import { stateOf, type QuotaState } from "./quota-state.ts";
import { SlidingLog } from "./sliding-log.ts";
import { snapshotReading } from "./snapshot.ts";

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
  const { hourMs, log = SILENT } = options;
  const keys = quotaKeys(options.prefix);
  let closed = false;
  const onError = (error: unknown) => {
    // Commands that fail because the connection was closed are expected.
    if (!closed) log.warn({ err: error }, "quota.redis_error");
  };
  const slots = new SlidingLog({ ...options, keys, onError });
  const pacer = new Pacer(slots, keys, options);
  const gate = createGate(options);
  const refillMs = (options.burst * hourMs) / options.perHour;
  const { onThrottled } = options;
  const feedback = createFeedback({ pacer, slots, hourMs, refillMs, log, onThrottled });
  const issuer = new PermitIssuer({ gate, pacer, slots, feedback, onError });

  return {
    ready: slots.ready,
    acquire: (lane, signal) => issuer.acquire(lane, signal),
    state: async () => stateOf(await pacer.snapshot(), options),
    async disconnect() {
      closed = true;
      issuer.rejectAll(new Error("the quota is closed"));
      slots.disconnect();
      await gate.close();
    },
  };
}

/** Reads the state of the quota, for processes that send nothing. */
export function quotaReading(limits: QuotaLimits): Reading<QuotaState> {
  const { command, meaning } = snapshotReading(quotaKeys(limits.prefix), limits);
  return { command, meaning: (reply) => stateOf(meaning(reply), limits) };
}
