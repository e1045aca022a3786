/** What the service's answers tell of the quota, beyond the slot that each one spent. */
import type { Redis } from "ioredis";
import type { Pacer, QuotaSnapshot, TakenTurn } from "./pacer.ts";
import type { LeaseLog } from "./lease-log.ts";
import type { ExchangeResult, ReplyHeaders } from "./permit.ts";
import { remainingOf, resetInMs, waitAskedMs } from "./retry-after.ts";

export type QuotaEvent =
  | "quota.throttled"
  | "quota.pacing_changed"
  | "quota.bursts_proven"
  | "quota.spent_elsewhere"
  | "quota.redis_error";

export interface QuotaLog {
  info(fields: object, event: QuotaEvent): void;
  warn(fields: object, event: QuotaEvent): void;
}

export interface FeedbackOptions {
  readonly redis: Redis;
  readonly gate: Pacer;
  readonly hour: LeaseLog;
  readonly hourMs: number;
  /** How long a bucket of one burst takes to fill at the hour's rate, ms. */
  readonly refillMs: number;
  /** Key that is set while one process corrects the count. */
  readonly correcting: string;
  readonly log: QuotaLog;
  readonly onPause: ((reason: "throttled") => void) | undefined;
}

/** A permit's turn, and how long its answer took. */
export interface AnsweredPermit {
  readonly permitId: string;
  readonly turn: TakenTurn;
  readonly tripMs: number;
}

const LOCK_MS = 5000;

export function createFeedback(options: FeedbackOptions) {
  const { gate, hour, hourMs, redis, log } = options;

  async function throttled(
    headers: ReplyHeaders,
    { permitId, turn }: AnsweredPermit,
  ): Promise<void> {
    const askedMs = waitAskedMs(headers, Date.now());
    // An hour that others have emptied is no sign that bursts are unwelcome.
    const emptied = remainingOf(headers) === 0 && (askedMs ?? 0) > options.refillMs;
    const unexplained = !emptied && turn.snapshot.remaining > 0;
    const { until, switched, stopped } = await gate.throttled(permitId, askedMs, unexplained);
    if (stopped) options.onPause?.("throttled");
    const wait = { until: new Date(until).toISOString(), wait_asked_ms: askedMs };
    log.warn({ ...wait, unexplained }, "quota.throttled");
    if (switched) log.warn({ pacing: "steady", for_hours: 24 }, "quota.pacing_changed");
  }

  /** Another program spends the same quota: what it has spent is taken from ours. */
  async function correct(remaining: number, forMs: number, granted: QuotaSnapshot): Promise<void> {
    if ((await redis.set(options.correcting, "1", "PX", LOCK_MS, "NX")) === null) return;
    try {
      const now = await gate.look();
      // Nothing of ours that the service has counted can be missing here.
      const ours = granted.running + (now.taken - granted.taken);
      const foreign = Math.min(now.limit - ours - remaining, now.remaining);
      if (foreign <= 0) return;
      log.info({ requests: foreign, for_ms: forMs }, "quota.spent_elsewhere");
      await hour.occupy(foreign, forMs);
    } finally {
      await redis.del(options.correcting);
    }
  }

  return {
    async learn({ status, headers = {} }: ExchangeResult, answered: AnsweredPermit): Promise<void> {
      if (status === 429) return throttled(headers, answered);
      const { permitId, turn, tripMs } = answered;
      if (turn.mode === "probing" || turn.snapshot.inARow > 0) {
        const accepted = status !== undefined && status < 500 && status !== 401 && status !== 403;
        const proved = await gate.answered(permitId, accepted, tripMs);
        if (proved) log.info({ pacing: "free" }, "quota.bursts_proven");
      }
      const remaining = remainingOf(headers);
      if (remaining === undefined || remaining >= turn.snapshot.remaining - 1) return undefined;
      const left = resetInMs(headers, Date.now());
      if (left !== undefined) await correct(remaining, Math.min(left, hourMs), turn.snapshot);
      return undefined;
    },
  };
}
