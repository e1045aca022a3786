/**
 * Takes permits when pacing lets the next request start, and tells pacing what replies say. The rules
 * are pure (pacing.ts, pace-state.ts); their state is shared through Redis, so every process decides
 * alike. An error in it never overdraws the quota: the sliding log is the limit.
 */
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Lane } from "../event/lane.ts";
import {
  claimTurn,
  learnReply,
  missReply,
  paceRules,
  parsePaceState,
  returnTurn,
  throttle,
  type PaceRules,
  type PaceState,
  type TakenTurn,
  type Throttling,
  pacingOf,
  type Pacing,
  type PacingSetting,
} from "./pace-state.ts";
import { paceOf, HOUR_PARTS, type PacingView } from "./pacing.ts";
import type { QuotaKeys, SlidingLog } from "./sliding-log.ts";
import type { Redis } from "ioredis";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { SLICES_KEPT, sliceMs } from "../sync/rank.ts";

// One reading of everything that the quota shares: the same in every process.

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
function createSnapshotReader(
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

/** A permit that was taken, with what was known then. */
export interface TakenPermit extends TakenTurn {
  readonly kind: "taken";
  readonly requestedAt: number;
  readonly snapshot: QuotaSnapshot;
}

export type PermitTaking = TakenPermit | { readonly kind: "wait"; readonly ms: number };

/** How often a waiter looks whether a change has come that may take its turn earlier, ms. */
const LOOKS_PER_HOUR = 7200;
const LOOK_LEAST_MS = 20;

export class Pacer {
  /** Reads everything that is shared, without taking part. */
  readonly snapshot: () => Promise<QuotaSnapshot>;
  readonly #log: SlidingLog;
  readonly #keys: QuotaKeys;
  readonly #rules: PaceRules;
  readonly #lookMs: number;
  readonly #change: RedisScript<[written: number, now: number, state: string]>;

  constructor(log: SlidingLog, keys: QuotaKeys, options: SnapshotOptions) {
    this.#log = log;
    this.#keys = keys;
    this.#rules = paceRules(options);
    this.#lookMs = Math.max(LOOK_LEAST_MS, options.hourMs / LOOKS_PER_HOUR);
    this.snapshot = createSnapshotReader(log.redis, keys, options);
    this.#change = redisScript(log.redis, new URL("./lua/change-pacing.lua", import.meta.url));
  }

  /** Takes a permit, or returns how long to wait before the next try, ms. */
  async take(lane: Lane, permitId: string): Promise<PermitTaking> {
    const snapshot = await this.snapshot();
    const { now, state, stateText, lowestRank, nextReturnAt, pacing } = snapshot;
    const pace = paceOf(snapshot, lane);
    if (pace === undefined) {
      return { kind: "wait", ms: Math.max(this.#rules.steadyMs, nextReturnAt - now) };
    }
    const next = claimTurn(state, now, { permitId, pace, lowestRank }, this.#rules);
    if (typeof next === "number") {
      return { kind: "wait", ms: pace.early > 0 ? Math.min(next, this.#lookMs) : next };
    }
    const taking = await this.#log.take(permitId, stateText, JSON.stringify(next));
    if (taking.kind === "again") return { kind: "wait", ms: 0 };
    if (taking.kind === "full") return { kind: "wait", ms: taking.ms };
    const { requestedAt } = taking;
    return { kind: "taken", permitId, requestedAt, intervalMs: pace.intervalMs, pacing, snapshot };
  }

  /** Returns a turn that was not used. */
  async returnTurn(taken: TakenPermit): Promise<void> {
    const { intervalMs, pacing, snapshot } = taken;
    if (intervalMs === 0 && pacing === "burst" && snapshot.state.failures === 0) return;
    await this.#reduce((state) => returnTurn(state, taken, this.#rules));
  }

  /** Learns from the first reply after a 429 that is none. */
  async answered({ permitId, snapshot }: TakenPermit): Promise<void> {
    if (snapshot.state.failures > 0) await this.#reduce((state) => learnReply(state, permitId));
  }

  /** Notes that a request got no reply. */
  async unanswered(): Promise<void> {
    await this.#reduce(missReply);
  }

  /** Stops all processes after a 429. */
  async throttled(throttling: Omit<Throttling, "random">) {
    const random = Math.random();
    const { now, before, after } = await this.#reduce((state, at) =>
      throttle(state, at, { ...throttling, random }, this.#rules),
    );
    return {
      /** Until when no process sends, ms since the epoch. */
      until: after.stop,
      /** Whether pacing became steady with it. */
      switched: before.steady <= now && after.steady > now,
      /** Whether this 429 began the stop; false when it came during one. */
      began: before.stop <= now,
    };
  }

  /** Changes the shared state, beginning again while other processes change it meanwhile. */
  async #reduce(reducer: (state: PaceState, now: number) => PaceState) {
    let [, now, text] = await this.#change([this.#keys.pacing], ["?", ""]);
    for (;;) {
      const before = parsePaceState(text);
      const after = reducer(before, now);
      const reply = await this.#change([this.#keys.pacing], [text, JSON.stringify(after)]);
      if (reply[0] === 1) return { now, before, after };
      [, now, text] = reply;
    }
  }
}
