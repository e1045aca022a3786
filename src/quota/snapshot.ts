/** One reading of everything that the quota shares: the same in every process. */
import type { Redis } from "ioredis";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript } from "../ops/redis-script.ts";
import { HOUR_PARTS, type PacingView } from "./pacing.ts";
import type { QuotaKeys } from "./quota-keys.ts";
import { SLICES_KEPT, sliceMs } from "./slices.ts";

/** What QUOTA_PACING allows: see docs/adr/0002. */
export type PacingSetting = "auto" | "burst" | "steady";

/** How requests follow each other now: bursts are allowed, are being tried, or are given up for a day. */
export type Pacing = "free" | "probing" | "steady";

/** Times in ms since the epoch, by Redis' clock. */
export interface QuotaSnapshot extends PacingView {
  readonly now: number;
  /** Leases of the hour taken so far, ended ones too. */
  readonly taken: number;
  readonly running: number;
  /** When the next spent slot returns, and the last one; `now` when none is spent. */
  readonly nextReturnAt: number;
  readonly allReturnedAt: number;
  readonly stopUntil: number;
  readonly pacing: Pacing;
  /** Stops by a 429 since the last other reply. */
  readonly failures: number;
}

export interface SnapshotOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly pacing: PacingSetting;
  readonly liveReserve: number;
  /** How long after its window a lease of the hour ends by itself, ms. */
  readonly hourHoldMs: number;
}

/** JSON that snapshot.lua returns; fields that the pace hash has are explained in lua/pace.lua. */
interface RawSnapshot {
  readonly now: number;
  /** -1: the lease log has no limit yet. */
  readonly limit: number;
  /** Leases that the lease log counts, and leases that have ended. */
  readonly running: number;
  readonly done: number;
  readonly returns: readonly number[];
  readonly demand: readonly number[];
  readonly current: { readonly changed: number; readonly passed: number };
  readonly waiting: number;
  /** When the next lease and the last one end by themselves; 0: there is none. */
  readonly first: number;
  readonly last: number;
  readonly stop: number;
  readonly failures: number;
  readonly steady: number;
  readonly proven: number;
}

const SCRIPT = new URL("./lua/snapshot.lua", import.meta.url);

/** For the pacer, which reads it before each turn. */
export function createSnapshotReader(
  redis: Redis,
  keys: QuotaKeys,
  options: SnapshotOptions,
): () => Promise<QuotaSnapshot> {
  const script = redisScript<string>(redis, SCRIPT);
  return async () => snapshotOf(await script(scriptKeysOf(keys), scriptArgsOf(options)), options);
}

export const snapshotReading = (
  keys: QuotaKeys,
  options: SnapshotOptions,
): Reading<QuotaSnapshot> =>
  scriptReading(SCRIPT, scriptKeysOf(keys), scriptArgsOf(options), (reply: string) =>
    snapshotOf(reply, options),
  );

const scriptKeysOf = (keys: QuotaKeys): string[] => [
  keys.pace,
  keys.hourSettings,
  keys.hourExpirations,
  keys.priorities,
  keys.learnt,
  keys.hourWeights,
];

const scriptArgsOf = ({ hourMs, hourHoldMs }: SnapshotOptions) => [
  hourMs,
  hourHoldMs,
  HOUR_PARTS,
  Math.ceil(sliceMs(hourMs)),
  SLICES_KEPT,
];

function snapshotOf(reply: string, options: SnapshotOptions): QuotaSnapshot {
  const raw = JSON.parse(reply) as RawSnapshot;
  const { now, running, returns, demand, current, waiting, failures } = raw;
  const { hourMs, hourHoldMs, liveReserve } = options;
  const limit = raw.limit > 0 ? raw.limit : options.perHour;
  return {
    now,
    limit,
    running,
    returns,
    demand,
    current,
    waiting,
    failures,
    taken: running + raw.done,
    remaining: Math.max(0, limit - running),
    nextReturnAt: raw.first === 0 ? now : Math.max(now, raw.first - hourHoldMs),
    allReturnedAt: raw.last === 0 ? now : Math.max(now, raw.last - hourHoldMs),
    stopUntil: raw.stop,
    pacing: pacingOf(raw, options.pacing),
    hourMs,
    liveReserve,
  };
}

function pacingOf({ now, steady, proven }: RawSnapshot, setting: PacingSetting): Pacing {
  if (setting === "burst") return "free";
  if (setting === "steady" || steady > now) return "steady";
  return proven > now ? "free" : "probing";
}
