/**
 * Which live records have changes, and which of the waiting ones is served next while requests are
 * scarce. Every staged change counts, coalesced or not: the requests that a flow needs must not
 * depend on how fast it is served.
 *
 * One HyperLogLog per slice of time counts each changed record once and keeps no crmCode. The order
 * is the time of a record's first unsynced change, minus a bonus for each further change: the more
 * changes one request settles, the sooner it is worth sending. The bonus is finite, so no record
 * waits for ever. If a crash loses this data, freshness suffers, but no change is lost.
 */
import type { Redis } from "ioredis";
import { redisScript } from "../ops/redis-script.ts";
import type { Lane } from "../sync/lane.ts";
import { quotaKeys } from "./quota-keys.ts";
import { priorityBonusMs, SLICES_KEPT, sliceMs } from "./slices.ts";

/** Records in one script call; Lua's stack has room for some thousands. */
const BATCH = 1000;

export interface Demand {
  /** Counts staged changes, one entry per change. */
  changed(records: readonly { readonly crmCode: string; readonly lane: Lane }[]): Promise<void>;
  /** The live record to serve next; undefined when none waits. */
  highest(): Promise<string | undefined>;
  /** Takes a record out of the order: it was taken, or has no job. */
  remove(crmCode: string): Promise<void>;
}

export function createDemand(
  redis: Redis,
  options: { readonly prefix: string; readonly hourMs: number },
): Demand {
  const keys = quotaKeys(options.prefix);
  const slice = Math.ceil(sliceMs(options.hourMs));
  const ttlMs = (SLICES_KEPT + 3) * slice;
  const bonusMs = priorityBonusMs(options.hourMs);
  const script = redisScript<number>(redis, new URL("./lua/demand-changed.lua", import.meta.url));
  return {
    async changed(records) {
      const live = records.filter(({ lane }) => lane === "live").map(({ crmCode }) => crmCode);
      for (let from = 0; from < live.length; from += BATCH) {
        const batch = live.slice(from, from + BATCH);
        await script([keys.priorities], [keys.demand, slice, ttlMs, bonusMs, ...batch]);
      }
    },
    highest: async () => (await redis.zrange(keys.priorities, "0", "0"))[0],
    async remove(crmCode) {
      await redis.zrem(keys.priorities, crmCode);
    },
  };
}
