/**
 * Which live records have changes, and which of the waiting ones is served next while requests are
 * scarce. Every staged change counts, coalesced or not: a flow must not look smaller because it is
 * served slowly.
 *
 * The order is by rank (rank.ts): the time of a record's first unsynced change, earlier for a record
 * that rarely changes, and earlier again with each further change. What these subtract is finite, and
 * a record whose run does not end its change keeps its rank, so no record waits for ever. What a
 * crash loses of this, the sweep restores.
 */
import type { Redis } from "ioredis";
import { redisScript } from "../ops/redis-script.ts";
import type { Lane } from "../sync/lane.ts";
import { slotOf } from "./gaps.ts";
import { quotaKeys } from "./quota-keys.ts";
import { sliceMs } from "./slices.ts";

/** Changes in one script call; Lua's stack has room for some thousands of arguments. */
const BATCH = 1000;

/** A record's place in the order of service. */
export interface Place {
  readonly crmCode: string;
  /** Lower ranks are served first, ms. Redis' own text: it loses no digit on its way back. */
  readonly rank: string;
}

/** What src/state/lua/stage.lua needs, to count the changes that it stages in the same step. */
export interface DemandStep {
  readonly keys: readonly [priorities: string, postponed: string, ranks: string, learnt: string];
  readonly sliceMs: number;
  readonly hourMs: number;
  readonly slotOf: (crmCode: string) => string;
}

export interface Demand {
  readonly step: DemandStep;
  /** Counts staged changes, one entry per change, that were not counted in the step that staged them. */
  changed(records: readonly { readonly crmCode: string; readonly lane: Lane }[]): Promise<void>;
  /** The live record to serve next; undefined when none waits. */
  highest(): Promise<Place | undefined>;
  /** The live record to serve last; undefined when none waits. */
  lowest(): Promise<Place | undefined>;
  /** One of the live records, by chance; undefined when none waits. */
  any(): Promise<Place | undefined>;
  /** Takes a record out of the order. @returns its rank; undefined when it had no place */
  take(crmCode: string): Promise<string | undefined>;
  /** Puts a record into the order after `delayMs`, with this rank, or with a lower one that it has. */
  place(place: Place, delayMs: number): Promise<void>;
  /** Puts a record that waits for its retry into the order at once. A record without a place gets none. */
  retryNow(crmCode: string): Promise<void>;
  /** Gives a place to each of these that has none. `rank`: since when it waits. */
  restore(places: readonly Place[]): Promise<void>;
}

export function createDemand(
  redis: Redis,
  options: { readonly prefix: string; readonly hourMs: number },
): Demand {
  const keys = quotaKeys(options.prefix);
  const { hourMs } = options;
  const slice = Math.ceil(sliceMs(hourMs));
  const order = [keys.priorities, keys.postponed, keys.postponedRanks] as const;
  const step: DemandStep = {
    keys: [...order, keys.learnt],
    sliceMs: slice,
    hourMs,
    slotOf: (crmCode) => `#${slotOf(crmCode)}`,
  };
  const script = <Reply>(name: string) =>
    redisScript<Reply>(redis, new URL(`./lua/${name}.lua`, import.meta.url));
  const changed = script<number>("demand-changed");
  const highest = script<string[]>("demand-highest");
  const take = script<string | null>("demand-take");
  const place = script<number>("demand-place");
  const restore = script<number>("demand-restore");
  async function choose(which: "next" | "last" | "any"): Promise<Place | undefined> {
    const [crmCode, rank] = await highest(order, [which]);
    return crmCode === undefined || rank === undefined ? undefined : { crmCode, rank };
  }
  return {
    step,
    async changed(records) {
      const live = records.filter(({ lane }) => lane === "live").map(({ crmCode }) => crmCode);
      for (let from = 0; from < live.length; from += BATCH) {
        const batch = live.slice(from, from + BATCH);
        const changes = batch.flatMap((crmCode) => [crmCode, step.slotOf(crmCode)]);
        await changed(step.keys, [slice, hourMs, ...changes]);
      }
    },
    highest: () => choose("next"),
    lowest: () => choose("last"),
    any: () => choose("any"),
    take: async (crmCode) => (await take(order, [crmCode])) ?? undefined,
    async place({ crmCode, rank }, delayMs) {
      await place(order, [crmCode, rank, Math.ceil(delayMs)]);
    },
    async retryNow(crmCode) {
      await place(order, [crmCode, "", 0]);
    },
    async restore(places) {
      if (places.length === 0) return;
      await restore(
        order,
        places.flatMap(({ crmCode, rank }) => [crmCode, rank]),
      );
    },
  };
}
