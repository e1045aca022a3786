/**
 * What the processes counted lately (how changes ended, why they were rejected, how long the
 * service took), added up over all of them in slices of time that expire. For the status that
 * people read; the exact counts are the metrics.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../../base/redis-reading.ts";
import { redisWrites } from "../../base/redis-script.ts";
import { pairsOf } from "./scan.ts";
import { luaReading } from "./store.ts";

/** Counts of one slice of time, by name (see `sharedCounts` in src/operate/status/metrics.ts). */
export interface Slice {
  /** When it began, ms. */
  readonly since: number;
  readonly counts: Readonly<Record<string, number>>;
}

export interface SliceOptions {
  /** Key of a slice without its number. */
  readonly key: string;
  readonly sliceMs: number;
  /** How many are read: the one that has just begun, and this many before it. */
  readonly slices: number;
}

export function slicedCounts(redis: Redis, { key, sliceMs, slices }: SliceOptions) {
  const write = redisWrites(redis);
  return {
    /** @param counts name → how often since the last call. @param now Redis' time, ms. */
    async add(counts: ReadonlyMap<string, number>, now: number): Promise<void> {
      const slice = `${key}${Math.floor(now / sliceMs)}`;
      await write([
        ...[...counts].map(([name, count]) => ["HINCRBY", slice, name, count] as const),
        ["PEXPIRE", slice, Math.ceil((slices + 2) * sliceMs)],
      ]);
    },
    /** The slices that are kept, oldest first, without those in which nothing was counted. */
    reading: (): Reading<Slice[]> =>
      luaReading("slices", [key], [sliceMs, slices + 1], (flat: (number | string[])[]) =>
        pairsOf(flat).map(([slice, counts]) => ({
          since: Number(slice) * sliceMs,
          counts: Object.fromEntries(
            pairsOf(counts as string[]).map(([name, count]) => [name, Number(count)]),
          ),
        })),
      ),
  };
}

/** Name → count over all slices. */
export function sumOf(slices: readonly Slice[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { counts } of slices) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}
