/**
 * Takes permits when pacing lets the next request start, and tells pacing what replies say. The rules
 * are pure (pacing.ts, pace-state.ts); their state is shared through Redis, so every process decides
 * alike. An error in it never overdraws the quota: the sliding log is the limit.
 */
import type { Lane } from "../event/lane.ts";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript } from "../ops/redis-script.ts";
import { SLICES_KEPT, sliceMs } from "../sync/rank.ts";
import {
  claimTurn,
  learnReply,
  missReply,
  paceRules,
  pacingOf,
  parsePaceState,
  returnTurn,
  throttle,
  type PaceRules,
  type PaceState,
  type PacingSetting,
  type Throttling,
} from "./pace-state.ts";
import { HOUR_PARTS, paceOf, type PacingView } from "./pacing.ts";
import type { QuotaKeys, SlidingLog } from "./sliding-log.ts";

/** What snapshot.lua returns, as JSON: everything that the quota shares. Times in ms since the epoch, by Redis' clock. */
interface RawSnapshot extends Pick<PacingView, "returns" | "demand" | "waiting"> {
  readonly now: number;
  /** The name of the log: another one means that Redis has forgotten slots. */
  readonly epoch: string;
  /** Slots of the hour taken so far, ended ones too, and those that are in use. */
  readonly taken: number;
  readonly running: number;
  /** JSON of PaceState. */
  readonly stateText: string;
  /** The rank of the live record that is served next; absent when none waits. */
  readonly lowestRank?: number;
  /** Absent: no process has written the limits yet. */
  readonly limit?: number;
  readonly burst?: number;
  /** When the next spent slot returns, and the last one; absent: none is spent. */
  readonly nextReturnAt?: number;
  readonly allReturnedAt?: number;
}

export type QuotaSnapshot = ReturnType<typeof snapshotOf>;

export interface SnapshotOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly pacing: PacingSetting;
  readonly liveReserve: number;
}

const SNAPSHOT = new URL("./lua/snapshot.lua", import.meta.url);

export const snapshotReading = (
  keys: QuotaKeys,
  options: SnapshotOptions,
): Reading<QuotaSnapshot> =>
  scriptReading(SNAPSHOT, keysOf(keys), argsOf(options), (reply: string) =>
    snapshotOf(reply, options),
  );

const keysOf = ({ log, hour, pacing, liveLine, flow }: QuotaKeys): string[] => [
  log,
  hour,
  pacing,
  liveLine,
  flow,
];

const argsOf = ({ hourMs }: SnapshotOptions) => [hourMs, HOUR_PARTS, sliceMs(hourMs), SLICES_KEPT];

function snapshotOf(reply: string, options: SnapshotOptions) {
  const raw = JSON.parse(reply) as RawSnapshot;
  const { now, limit = options.perHour, lowestRank } = raw;
  const { hourMs, liveReserve } = options;
  const state = parsePaceState(raw.stateText);
  const pacing = pacingOf(state, now, options.pacing);
  const remaining = Math.max(0, limit - raw.running);
  const { burst = options.burst, nextReturnAt = now, allReturnedAt = now } = raw;
  const given = { limit, burst, nextReturnAt, allReturnedAt, lowestRank };
  return { ...raw, ...given, remaining, state, pacing, hourMs, liveReserve };
}

/** A permit that was taken, with what was known then. */
export interface TakenPermit {
  readonly kind: "taken";
  readonly permitId: string;
  readonly requestedAt: number;
  /** Time from its turn to the next one, ms; 0: it went at once. */
  readonly intervalMs: number;
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
  readonly #rules: PaceRules;
  readonly #lookMs: number;

  constructor(log: SlidingLog, keys: QuotaKeys, options: SnapshotOptions) {
    const { hourMs } = options;
    this.#log = log;
    this.#rules = paceRules(options);
    this.#lookMs = Math.max(LOOK_LEAST_MS, hourMs / LOOKS_PER_HOUR);
    const script = redisScript<string>(log.redis, SNAPSHOT);
    this.snapshot = async () => snapshotOf(await script(keysOf(keys), argsOf(options)), options);
  }

  /** Takes a permit, or returns how long to wait before the next try, ms. */
  async take(lane: Lane, permitId: string): Promise<PermitTaking> {
    const snapshot = await this.snapshot();
    const { now, state, stateText, lowestRank, nextReturnAt } = snapshot;
    const pace = paceOf(snapshot, lane);
    if (pace === undefined) {
      return { kind: "wait", ms: Math.max(this.#rules.steadyMs, nextReturnAt - now) };
    }
    const next = claimTurn(state, now, { pace, lowestRank }, this.#rules);
    if (typeof next === "number") {
      return { kind: "wait", ms: pace.early > 0 ? Math.min(next, this.#lookMs) : next };
    }
    const taking = await this.#log.take(permitId, stateText, JSON.stringify(next));
    if (taking.kind === "again") return { kind: "wait", ms: 0 };
    if (taking.kind === "full") return { kind: "wait", ms: taking.ms };
    return { ...taking, permitId, intervalMs: pace.intervalMs, snapshot };
  }

  /** Returns a turn that was not used. */
  async returnTurn({ intervalMs, snapshot: { pacing, state } }: TakenPermit): Promise<void> {
    if (intervalMs === 0 && pacing === "burst" && state.failures === 0) return;
    await this.#reduce((now) => returnTurn(now, { intervalMs, pacing }, this.#rules));
  }

  /** Learns from the first reply after a 429 that is none. */
  async answered({ snapshot }: TakenPermit): Promise<void> {
    if (snapshot.state.failures > 0) await this.#reduce(learnReply);
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
    for (;;) {
      const { now, state: before, stateText } = await this.snapshot();
      const after = reducer(before, now);
      if (await this.#log.setPacing(stateText, JSON.stringify(after)))
        return { now, before, after };
    }
  }
}
