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
  type Reply,
  type TakenTurn,
  type Throttling,
} from "./pace-state.ts";
import { paceOf } from "./pacing.ts";
import type { QuotaKeys } from "./quota-keys.ts";
import type { SlidingLog } from "./sliding-log.ts";
import { createSnapshotReader, type QuotaSnapshot, type SnapshotOptions } from "./snapshot.ts";

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
    if (intervalMs === 0 && pacing === "free" && snapshot.state.failures === 0) return;
    await this.#reduce((state) => returnTurn(state, taken, this.#rules));
  }

  /** Learns from a reply that is no 429. @returns whether it proved that bursts are allowed. */
  async answered(reply: Reply): Promise<boolean> {
    const { now, before, after } = await this.#reduce((state, at) =>
      learnReply(state, at, reply, this.#rules),
    );
    return before.proven <= now && after.proven > now;
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
