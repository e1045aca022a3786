/**
 * Which live records changes arrive for, and who of those that wait is served next while requests
 * are scarce. Both are told once per staged change, whether or not it coalesced: how many requests
 * a flow would need must not depend on how fast it is being served.
 *
 * What is coming is counted by a HyperLogLog per slice, which counts a record once per slice and
 * keeps no crmCode. The order is the time of a record's first unsynced change, minus a bonus for
 * each further one: the more changes one request settles, the sooner it is worth sending, yet no
 * record is ever passed for good. Losing either in a crash costs freshness, never a change.
 */
import type { Redis, Result } from "ioredis";
import { SLICES_KEPT, sliceMs, priorityBonusMs } from "./slices.ts";
import type { Lane } from "../sync/lane.ts";
import { quotaKeys } from "./quota-keys.ts";

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncDemandChanged(keys: number, ...args: (string | number)[]): Result<number, Context>;
  }
}

/** KEYS turns; ARGV demandPrefix sliceMs ttlMs bonusMs crmCode… */
const CHANGED = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local slice = ARGV[1] .. string.format('%d', math.floor(now / ARGV[2]))
for i = 5, #ARGV do
  redis.call('PFADD', slice, ARGV[i])
  if redis.call('ZADD', KEYS[1], 'NX', now, ARGV[i]) == 0 then
    redis.call('ZINCRBY', KEYS[1], -ARGV[4], ARGV[i])
  end
end
redis.call('PEXPIRE', slice, ARGV[3])
return 0
`;

/** Arguments of one script call; Lua's stack has room for some thousands. */
const BATCH = 1000;

export interface Demand {
  /** Tells of staged changes, one entry for each. */
  changed(records: readonly { readonly crmCode: string; readonly lane: Lane }[]): Promise<void>;
  /** The live record that is to be served next; undefined when none waits. */
  highest(): Promise<string | undefined>;
  /** A record was taken, or turned out to have no job: it loses its place. */
  remove(crmCode: string): Promise<void>;
}

export function createDemand(
  redis: Redis,
  options: { readonly prefix: string; readonly hourMs: number },
): Demand {
  const keys = quotaKeys(options.prefix);
  const slice = Math.ceil(sliceMs(options.hourMs));
  redis.defineCommand("crmsyncDemandChanged", { lua: CHANGED });
  return {
    async changed(records) {
      const live = records.filter(({ lane }) => lane === "live").map(({ crmCode }) => crmCode);
      for (let from = 0; from < live.length; from += BATCH) {
        await redis.crmsyncDemandChanged(
          ...([1, keys.priorities, keys.demand, slice, (SLICES_KEPT + 3) * slice] as const),
          priorityBonusMs(options.hourMs),
          ...live.slice(from, from + BATCH),
        );
      }
    },
    highest: async () => (await redis.zrange(keys.priorities, "0", "0"))[0],
    async remove(crmCode) {
      await redis.zrem(keys.priorities, crmCode);
    },
  };
}
