/** What replies tell of the quota, beyond the slot that each one spent. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import type { LeaseLog } from "./lease-log.ts";
import type { Pacer, TakenTurn } from "./pacer.ts";
import type { ExchangeResult, ReplyHeaders } from "./permit.ts";
import { isForeign, remainingOf, resetInMs, waitAskedMs } from "./retry-after.ts";
import type { QuotaSnapshot } from "./snapshot.ts";

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
  readonly pacer: Pacer;
  readonly hour: LeaseLog;
  readonly hourMs: number;
  /** How long a bucket of one burst takes to fill at the hour's rate, ms. */
  readonly refillMs: number;
  /** Key that is set while one process corrects the count. */
  readonly correcting: string;
  readonly log: QuotaLog;
  readonly onThrottled: (() => void) | undefined;
  readonly onError: (error: unknown) => void;
}

/** The turn of a permit, and the time from the permit to the reply. */
export interface AnsweredPermit {
  readonly permitId: string;
  readonly turn: TakenTurn;
  readonly tripMs: number;
}

export type Feedback = ReturnType<typeof createFeedback>;

/** How long the lock of the process that corrects the count lasts, unless it is renewed, ms. */
const LOCK_MS = 5000;

export function createFeedback(options: FeedbackOptions) {
  const { pacer, hour, hourMs, redis, log } = options;
  const write = redisWrite(redis);

  async function throttled(
    headers: ReplyHeaders,
    { permitId, turn }: AnsweredPermit,
  ): Promise<void> {
    const askedMs = waitAskedMs(headers, Date.now());
    // A 429 because other programs have spent the hour does not mean that bursts are forbidden.
    const spentElsewhere = remainingOf(headers) === 0 && (askedMs ?? 0) > options.refillMs;
    const unexplained = !spentElsewhere && turn.snapshot.remaining > 0;
    const { until, switched, stopped } = await pacer.throttled(permitId, askedMs, unexplained);
    if (stopped) options.onThrottled?.();
    const wait = { until: new Date(until).toISOString(), wait_asked_ms: askedMs };
    log.warn({ ...wait, unexplained }, "quota.throttled");
    if (switched) log.warn({ pacing: "steady", for_hours: 24 }, "quota.pacing_changed");
  }

  async function proveBursts(status: number | undefined, answered: AnsweredPermit): Promise<void> {
    const { permitId, turn, tripMs } = answered;
    if (turn.pacing !== "probing" && turn.snapshot.failures === 0) return;
    const accepted = status !== undefined && status < 500 && status !== 401 && status !== 403;
    const proved = await pacer.answered(permitId, accepted, tripMs);
    if (proved) log.info({ pacing: "free" }, "quota.bursts_proven");
  }

  /** When the service counts more requests than we do, another program spends the same quota. */
  async function compareCounts(headers: ReplyHeaders, turn: TakenTurn): Promise<void> {
    const remaining = isForeign(headers) ? undefined : remainingOf(headers);
    if (remaining === undefined || remaining >= turn.snapshot.remaining - 1) return;
    const resetMs = resetInMs(headers, Date.now());
    if (resetMs !== undefined) await correct(remaining, Math.min(resetMs, hourMs), turn.snapshot);
  }

  /** Occupies the slots that another program has spent, for as long as the service counts them. */
  async function correct(remaining: number, forMs: number, granted: QuotaSnapshot): Promise<void> {
    if ((await write("SET", options.correcting, "1", "PX", LOCK_MS, "NX")) === null) return;
    let occupying: Promise<void> = Promise.resolve();
    try {
      const now = await pacer.snapshot();
      const since = now.taken - granted.taken;
      // Redis went back meanwhile, and each process writes its leases again: until then the count is too low.
      if (since < 0) return;
      // Every request of ours that the service may have counted is in this number.
      const ours = granted.running + since;
      const foreign = Math.min(now.limit - ours - remaining, now.remaining);
      if (foreign <= 0) return;
      log.info({ requests: foreign, for_ms: forMs }, "quota.spent_elsewhere");
      occupying = hour.occupy(foreign, forMs);
    } finally {
      // Not awaited: a slot may be free in an hour only, and the reply must be acted on now.
      void keptWhile(occupying).catch(options.onError);
    }
  }

  /**
   * Renews the lock until all slots are taken. Over a slow Redis that takes longer than the lock lasts, and
   * a second correction would take them again.
   */
  async function keptWhile(occupying: Promise<void>): Promise<void> {
    const keep = () => void redis.pexpire(options.correcting, LOCK_MS).catch(options.onError);
    const keeping = setInterval(keep, LOCK_MS / 3).unref();
    await occupying.finally(() => clearInterval(keeping));
    await redis.del(options.correcting);
  }

  return {
    async learn({ status, headers = {} }: ExchangeResult, answered: AnsweredPermit): Promise<void> {
      if (status === 429) return throttled(headers, answered);
      if (status === undefined) await pacer.unanswered();
      await proveBursts(status, answered);
      await compareCounts(headers, answered.turn);
    },
  };
}
