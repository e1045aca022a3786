/** One reading of everything that the quota shares: the same in every process. */
import type { Redis } from "ioredis";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript } from "../ops/redis-script.ts";
import {
  pacingOf,
  parsePaceState,
  type PaceState,
  type Pacing,
  type PacingSetting,
} from "./pace-state.ts";
import { SLICES_KEPT, sliceMs } from "../sync/slices.ts";
import { HOUR_PARTS, type PacingView } from "./pacing.ts";
import type { QuotaKeys } from "./quota-keys.ts";

/** Times in ms since the epoch, by Redis' clock. */
export interface QuotaSnapshot extends PacingView {
  /** The rank of the live record that is served next; undefined when none waits. */
  readonly lowestRank: number | undefined;
  readonly now: number;
  /** The name of the log: another one means that Redis has forgotten slots. */
  readonly epoch: string;
  readonly burst: number;
  /** Slots of the hour taken so far, ended ones too. */
  readonly taken: number;
  readonly running: number;
  /** When the next spent slot returns, and the last one; `now` when none is spent. */
  readonly nextReturnAt: number;
  readonly allReturnedAt: number;
  readonly state: PaceState;
  /** `state` as it lies in Redis. */
  readonly stateText: string;
  /** How requests follow each other now. */
  readonly pacing: Pacing;
}

export interface SnapshotOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly pacing: PacingSetting;
  readonly liveReserve: number;
}

/** JSON that snapshot.lua returns. */
interface RawSnapshot {
  readonly now: number;
  readonly epoch: string;
  /** Absent: no process has written the limits yet. */
  readonly limit?: number;
  readonly burst?: number;
  readonly taken: number;
  readonly running: number;
  readonly returns: readonly number[];
  /** When the next slot and the last one end; absent: there is none. */
  readonly first?: number;
  readonly last?: number;
  readonly pacing: string;
  readonly flow: {
    /** Changes in the present slice and in those before it, newest first. */
    readonly slices: readonly number[];
    readonly waiting: number;
    readonly lowestRank?: number;
  };
}

const SCRIPT = new URL("./lua/snapshot.lua", import.meta.url);

/** For the pacer, which reads it before each permit. */
export function createSnapshotReader(
  redis: Redis,
  keys: QuotaKeys,
  options: SnapshotOptions,
): () => Promise<QuotaSnapshot> {
  const script = redisScript<string>(redis, SCRIPT);
  return async () => snapshotOf(await script(keysOf(keys), argsOf(options)), options);
}

export const snapshotReading = (
  keys: QuotaKeys,
  options: SnapshotOptions,
): Reading<QuotaSnapshot> =>
  scriptReading(SCRIPT, keysOf(keys), argsOf(options), (reply: string) =>
    snapshotOf(reply, options),
  );

const keysOf = (keys: QuotaKeys): string[] => [
  keys.log,
  keys.hour,
  keys.pacing,
  keys.liveLine,
  keys.flow,
];

const argsOf = ({ hourMs }: SnapshotOptions) => [hourMs, HOUR_PARTS, sliceMs(hourMs), SLICES_KEPT];

function snapshotOf(reply: string, options: SnapshotOptions): QuotaSnapshot {
  const raw = JSON.parse(reply) as RawSnapshot;
  const { now, epoch, taken, running, returns } = raw;
  const { hourMs, liveReserve } = options;
  const [changed = 0, ...demand] = raw.flow.slices;
  const limit = raw.limit ?? options.perHour;
  const state = parsePaceState(raw.pacing);
  return {
    demand,
    current: { changed, passed: (now / sliceMs(hourMs)) % 1 },
    waiting: raw.flow.waiting,
    lowestRank: raw.flow.lowestRank,
    now,
    epoch,
    limit,
    burst: raw.burst ?? options.burst,
    taken,
    running,
    remaining: Math.max(0, limit - running),
    returns,
    nextReturnAt: raw.first ?? now,
    allReturnedAt: raw.last ?? now,
    state,
    stateText: raw.pacing,
    pacing: pacingOf(state, now, options.pacing),
    hourMs,
    liveReserve,
  };
}
