/** What replies tell of the quota, beyond the slots that each request spent. */
import type { Pacer, TakenPermit } from "./pacer.ts";
import type { ExchangeResult, ReplyHeaders } from "./permit.ts";
import { isForeign, remainingOf, resetInMs, waitAskedMs } from "./retry-after.ts";
import type { SlidingLog } from "./sliding-log.ts";

export type QuotaEvent =
  | "quota.throttled"
  | "quota.pacing_changed"
  | "quota.spent_elsewhere"
  | "quota.redis_error";

export interface QuotaLog {
  info(fields: object, event: QuotaEvent): void;
  warn(fields: object, event: QuotaEvent): void;
}

export interface FeedbackOptions {
  readonly pacer: Pacer;
  readonly slots: SlidingLog;
  readonly hourMs: number;
  /** How long a bucket of one burst takes to fill at the hour's rate, ms. */
  readonly refillMs: number;
  readonly log: QuotaLog;
  readonly onThrottled: (() => void) | undefined;
}

export type Feedback = ReturnType<typeof createFeedback>;

export function createFeedback(options: FeedbackOptions) {
  const { pacer, slots, hourMs, refillMs, log, onThrottled } = options;
  async function throttled(headers: ReplyHeaders, { snapshot }: TakenPermit) {
    const askedMs = waitAskedMs(headers, Date.now());
    // A 429 because other programs have spent the hour does not mean that bursts are forbidden.
    const spentElsewhere = remainingOf(headers) === 0 && (askedMs ?? 0) > refillMs;
    const unexplained = !spentElsewhere && snapshot.remaining > 0;
    const { until, switched, began } = await pacer.throttled({ askedMs, unexplained });
    if (began) onThrottled?.();
    const wait = { until: new Date(until).toISOString(), wait_asked_ms: askedMs };
    log.warn({ ...wait, unexplained }, "quota.throttled");
    if (switched) log.warn({ pacing: "steady", for_hours: 24 }, "quota.pacing_changed");
  }

  /** When the service counts more requests than we do, another program spends the same quota. */
  async function compareCounts(headers: ReplyHeaders, { snapshot }: TakenPermit) {
    const remaining = isForeign(headers) ? undefined : remainingOf(headers);
    if (remaining === undefined || remaining >= snapshot.remaining - 1) return;
    const resetMs = resetInMs(headers, Date.now());
    if (resetMs === undefined) return;
    const forMs = Math.min(resetMs, hourMs);
    const requests = await slots.occupy(snapshot, remaining, forMs);
    if (requests > 0) log.info({ requests, for_ms: forMs }, "quota.spent_elsewhere");
  }

  return {
    async learn({ status, headers = {} }: ExchangeResult, taken: TakenPermit) {
      if (status === 429) return throttled(headers, taken);
      if (status === undefined) await pacer.unanswered();
      await pacer.answered(taken);
      await compareCounts(headers, taken);
    },
  };
}
