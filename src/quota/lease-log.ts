/**
 * An exact sliding log of requests. A lease is a job of a clustered Bottleneck that stays pending
 * until the reply has come and the window has passed, so the running jobs are exactly the requests
 * that the service may still count. A lease whose process died ends by its expiration.
 */
import { randomUUID } from "node:crypto";
import type Bottleneck from "bottleneck";
import { redisScript } from "../ops/redis-script.ts";
import type { LeaseRedis } from "./lease-redis.ts";

export interface Lease {
  /** False when it is so old that it might end by itself before the request arrives. */
  fresh(): boolean;
  /** Its request is being written: it lasts until `release`, however late the service counts it. */
  keep(): void;
  /** Returns the slot after this long; only the first call counts. */
  release(afterMs: number): void;
}

export interface LeaseLog {
  readonly ready: Promise<unknown>;
  /** Waits for a slot, without a time limit. */
  take(): Promise<Lease>;
  /** Takes slots that another program has spent, until `forMs` from now; resolves when all are taken. */
  occupy(weight: number, forMs: number): Promise<void>;
  /** Writes what this process has spent or holds into a Redis that has forgotten it. */
  restore(): Promise<void>;
  /** Whether this process has leases that Redis must know. */
  hasLeases(): boolean;
  /** Whether anything waits for a slot. */
  isWaiting(): boolean;
  /** Lets the process end while leases are pending; they stay in Redis. */
  abandon(): void;
}

export interface LeaseLogOptions {
  readonly id: string;
  readonly limit: number;
  /** False: a limit that is in Redis stays. */
  readonly setsLimit: boolean;
  readonly windowMs: number;
  /** How long after its window a lease ends by itself, ms. */
  readonly holdMs: number;
  /** How old a lease may be when its request is written to the socket, ms. */
  readonly freshMs: number;
  readonly onError: (error: unknown) => void;
}

/** While its request has no reply, the end of a lease is put off this many times in each hold. */
const PUT_OFF_PARTS = 4;

/** How often a process asks for a free slot, ms: the message of Redis that one is free may not arrive. */
const ASK_AGAIN_MS = 1000;

/** Timers may fire this much early. */
const TIMER_SLACK_MS = 1;

/**
 * Most slots that `occupy` waits for at once: permits queue behind it. The last ones are taken one by one, since a
 * request in flight may have taken one of them.
 */
const PIECE = 20;

export function createLeaseLog(
  limiter: Bottleneck,
  redis: LeaseRedis,
  options: LeaseLogOptions,
): LeaseLog {
  const lasting = options.windowMs + options.holdMs;
  const putOff = redisScript<number>(redis, new URL("./lua/put-lease-off.lua", import.meta.url));
  const restoreAll = redisScript<number>(
    redis,
    new URL("./lua/restore-leases.lua", import.meta.url),
  );
  /** Job id -> when its lease ends by itself, by performance.now(). */
  const ends = new Map<string, number>();

  function hold<T>(
    weight: number,
    expiration: number,
    granted: (end: () => void, id: string) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const id = randomUUID();
      const asking = setInterval(() => askAgain(limiter), ASK_AGAIN_MS).unref();
      const job = limiter.schedule({ weight, expiration, id }, () => {
        clearInterval(asking);
        ends.set(id, performance.now() + expiration);
        return new Promise<void>((end) => resolve(granted(end, id)));
      });
      // A rejection after the grant only means that the lease ended by itself.
      job.catch(reject).finally(() => {
        clearInterval(asking);
        ends.delete(id);
      });
    });
  }

  /** In Redis, and in this process, where Bottleneck has a timer for it. */
  async function putEndOff(id: string): Promise<void> {
    for (const [name, { expiration, job }] of Object.entries(scheduledIn(limiter))) {
      if (job.options.id !== id) continue;
      clearTimeout(expiration);
      ends.set(id, performance.now() + lasting);
      await putOff([`${options.id}_job_expirations`], [lasting, name]);
    }
  }

  /** The leases of this process that have not ended: name in Redis, slots, ms until each ends by itself. */
  function leasesNow(): [name: string, slots: number, leftMs: number][] {
    const now = performance.now();
    return Object.entries(scheduledIn(limiter)).flatMap(([name, { job }]) => {
      const { id, weight } = job.options;
      const leftMs = Math.ceil((ends.get(id) ?? now + lasting) - now);
      return leftMs > 0 ? [[name, weight, leftMs]] : [];
    });
  }

  return {
    // A new limiter takes over the settings in Redis; a changed limit must be written explicitly.
    ready: limiter
      .ready()
      .then(() => options.setsLimit && limiter.updateSettings({ maxConcurrent: options.limit })),

    take: () =>
      hold(1, lasting, (end, id) => {
        const requestedAt = redis.leaseRequestedAt(options.id);
        let keeping: NodeJS.Timeout | undefined;
        return {
          fresh: () => performance.now() - requestedAt < options.freshMs,
          keep() {
            const again = () => void putEndOff(id).catch(options.onError);
            keeping = setInterval(again, options.holdMs / PUT_OFF_PARTS).unref();
          },
          release(afterMs) {
            clearInterval(keeping);
            endAfter(end, afterMs === 0 ? 0 : afterMs + TIMER_SLACK_MS);
          },
        };
      }),

    async occupy(weight, forMs) {
      const until = performance.now() + forMs;
      let left = weight;
      while (left > 0) {
        const piece = left > 2 * PIECE ? PIECE : 1;
        await hold(piece, forMs + options.holdMs, (end) => {
          redis.leaseRequestedAt(options.id);
          endAfter(end, Math.max(0, until - performance.now()));
        });
        left -= piece;
      }
    },

    async restore() {
      // Bottleneck makes itself known again.
      await limiter.running();
      const leases = leasesNow();
      const keys = FORGOTTEN.map((key) => `${options.id}_${key}`);
      for (let from = 0; from < leases.length; from += BATCH) {
        const batch = leases.slice(from, from + BATCH);
        await restoreAll(keys, [clientOf(limiter), ...batch.flat()]);
      }
    },

    hasLeases: () => leasesNow().length > 0,

    isWaiting: () => !limiter.empty(),

    abandon() {
      for (const { timeout, expiration } of Object.values(scheduledIn(limiter))) {
        clearTimeout(timeout);
        clearTimeout(expiration);
      }
    },
  };
}

/** Bottleneck's keys that know of a lease. */
const FORGOTTEN = ["settings", "job_weights", "job_expirations", "job_clients", "client_running"];

/** Leases in one script call. */
const BATCH = 1000;

interface Internals {
  readonly _scheduled: Readonly<Record<string, Scheduled>>;
  readonly _store: { readonly clientId: string };
  _drainAll(): Promise<unknown>;
}

interface Scheduled {
  readonly timeout: NodeJS.Timeout;
  readonly expiration?: NodeJS.Timeout;
  readonly job: { readonly options: { readonly id: string; readonly weight: number } };
}

/** The leases of this process, by the names that they have in Redis. */
const scheduledIn = (limiter: Bottleneck): Internals["_scheduled"] =>
  (limiter as unknown as Internals)._scheduled;

/** The name of this process in Redis. */
const clientOf = (limiter: Bottleneck): string => (limiter as unknown as Internals)._store.clientId;

function askAgain(limiter: Bottleneck): void {
  void (limiter as unknown as Internals)._drainAll();
}

function endAfter(end: () => void, ms: number): void {
  if (ms === 0) end();
  else setTimeout(end, ms).unref();
}
