/**
 * An exact sliding log of requests, as the running jobs of a clustered Bottleneck: a lease is a
 * job that stays pending until the answer has come and the window has passed, so the running jobs
 * are just the requests that the service may still be counting. A lease whose process died ends
 * by its expiration.
 */
import type Bottleneck from "bottleneck";
import type { LeaseRedis } from "./lease-redis.ts";

export interface Lease {
  /** False once it is so old that it might end by itself before the request has arrived. */
  fresh(): boolean;
  /** Returns the slot after this long; only the first call counts. */
  release(afterMs: number): void;
}

export interface LeaseLog {
  readonly ready: Promise<unknown>;
  /** Waits for a slot as long as it takes. */
  take(): Promise<Lease>;
  /** Takes slots that another user of the same quota has spent; resolves when they are taken. */
  occupy(weight: number, forMs: number): Promise<void>;
  /** Lets the process end although leases are pending; they stay in Redis. */
  abandon(): void;
}

export interface LeaseLogOptions {
  readonly id: string;
  readonly limit: number;
  readonly windowMs: number;
  /** How long after its window a lease ends by itself, ms. */
  readonly holdMs: number;
  /** How old a lease may be when its request is written, ms. */
  readonly freshMs: number;
}

/** Timers may fire this much early. */
const TIMER_SLACK_MS = 1;

/** Weight that waits in one piece, so that it never blocks the queue for more than this. */
const PIECE = 20;

export function createLeaseLog(
  limiter: Bottleneck,
  redis: LeaseRedis,
  options: LeaseLogOptions,
): LeaseLog {
  const lasting = options.windowMs + options.holdMs;

  function hold<T>(
    weight: number,
    expiration: number,
    granted: (end: () => void) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const job = limiter.schedule(
        { weight, expiration },
        () => new Promise<void>((end) => resolve(granted(end))),
      );
      // After the grant this only tells that the lease ended by itself.
      job.catch(reject);
    });
  }

  return {
    // What Redis holds wins over the options of a new limiter; a changed limit must be told to it.
    ready: limiter.ready().then(() => limiter.updateSettings({ maxConcurrent: options.limit })),

    take: () =>
      hold(1, lasting, (end) => {
        const askedAt = redis.grantAskedAt(options.id);
        return {
          fresh: () => performance.now() - askedAt < options.freshMs,
          release: (afterMs) => endAfter(end, afterMs === 0 ? 0 : afterMs + TIMER_SLACK_MS),
        };
      }),

    async occupy(weight, forMs) {
      for (let left = weight; left > 0; left -= PIECE) {
        await hold(Math.min(left, PIECE), forMs + options.holdMs, (end) => {
          redis.grantAskedAt(options.id);
          endAfter(end, forMs);
        });
      }
    },

    abandon() {
      const scheduled = (limiter as unknown as { _scheduled: Record<string, Scheduled> })
        ._scheduled;
      for (const { timeout, expiration } of Object.values(scheduled)) {
        clearTimeout(timeout);
        clearTimeout(expiration);
      }
    },
  };
}

interface Scheduled {
  readonly timeout: NodeJS.Timeout;
  readonly expiration?: NodeJS.Timeout;
}

function endAfter(end: () => void, ms: number): void {
  if (ms === 0) end();
  else setTimeout(end, ms).unref();
}
