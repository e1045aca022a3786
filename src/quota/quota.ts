/**
 * The quota: the one place that gives permits. Each call goes through the limiter of this process
 * (issue-permits.ts); then the pacer decides when the next request may start, and the sliding log keeps both
 * windows exact over all processes. docs/adr/0002 explains why it is built this way.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../ops/redis-reading.ts";
import type { Lane } from "../event/lane.ts";
import { createFeedback, type QuotaLog } from "./feedback.ts";
import { createGate, PermitIssuer } from "./issue-permits.ts";
import type { PacingSetting, Pacing } from "./pace-state.ts";
import { Pacer, snapshotReading, type QuotaSnapshot } from "./pacer.ts";
import type { Permit } from "./permit.ts";
import { quotaKeys, SlidingLog } from "./sliding-log.ts";
import { drainsInMs, type ForecastLimits, type Waiting } from "./pacing.ts";

/** The same in every process. Times in ms since the epoch. */
export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  /** When the next spent request of the hour returns; now when none is spent. */
  readonly resetAt: number;
  /** When all spent requests of the hour will have returned. */
  readonly allReturnedAt: number;
  /** Requests of the hour that return in each part of the next one: so many were spent in that part of the last one. */
  readonly returns: readonly number[];
  readonly stopped: "throttled" | undefined;
  /** Until when no process sends; undefined when not stopped. */
  readonly until: number | undefined;
  readonly pacing: Pacing;
  /** Whether a request was ever sent: before that, what the service has counted is not known. */
  readonly hasSent: boolean;
  /** When `waiting` requests will have been sent, if no more come. */
  drainedAt(waiting: Waiting): number;
}

export function stateOf(snapshot: QuotaSnapshot, limits: ForecastLimits): QuotaState {
  const { now, limit, remaining, pacing } = snapshot;
  const stopUntil = snapshot.state.stop;
  const stopped = stopUntil > now;
  const startsAt = Math.max(now, stopUntil);
  return {
    limit,
    remaining,
    resetAt: snapshot.nextReturnAt,
    allReturnedAt: snapshot.allReturnedAt,
    pacing,
    hasSent: snapshot.taken > 0,
    returns: snapshot.returns,
    stopped: stopped ? "throttled" : undefined,
    until: stopped ? stopUntil : undefined,
    drainedAt: (waiting) => startsAt + drainsInMs(waiting, snapshot, limits, pacing === "steady"),
  };
}

export type { Permit } from "./permit.ts";

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
