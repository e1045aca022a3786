/**
 * Decides when the next request may start: pauses after a 429, pacing, and whether bursts are
 * allowed. All of it is shared through Redis, so every process decides alike. An error here never
 * overdraws the quota: the lease logs are the limit.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Lane } from "../sync/lane.ts";
import { paceOf, type Pace } from "./pacing.ts";
import type { QuotaKeys } from "./quota-keys.ts";
import {
  createSnapshotReader,
  type Pacing,
  type QuotaSnapshot,
  type SnapshotOptions,
} from "./snapshot.ts";

export interface PacerOptions extends SnapshotOptions {
  readonly burst: number;
}

/** A turn that was taken, with what was known then. */
export interface TakenTurn {
  readonly kind: "taken";
  readonly pacing: Pacing;
  readonly intervalMs: number;
  readonly snapshot: QuotaSnapshot;
}

export type Turn = TakenTurn | { readonly kind: "wait"; readonly ms: number };

/** What a 429 has led to. */
export interface Throttled {
  /** Until when no process sends, ms since the epoch. */
  readonly until: number;
  /** Whether pacing became steady with it. */
  readonly switched: boolean;
  /** Whether this 429 began the stop; false when it came during one. */
  readonly stopped: boolean;
}

/** Hours for which a proof of bursts counts, and for which an unexplained 429 makes pacing steady. */
const DAY_HOURS = 24;

/** Tokens below zero at which no bucket of one burst could have accepted a request. */
const PROOF_MARGIN = 0.5;

/** While probing, and after a 429, a request counts as in flight for at most this long, ms. */
const IN_FLIGHT_MAX_MS = 35_000;

/** How often a waiter looks in an hour, and its least pause, ms. */
const LOOKS_PER_HOUR = 7200;
const LOOK_LEAST_MS = 20;

/** After this many looks, all that pacing is decided from is read again. */
const LOOKS = 4;

const BACKOFF_BASE_MS = 1000;
const BACKOFF_CAP_MS = 300_000;

/** This many 429s in a row are believed to ask for the right wait. */
const BELIEVED_STOPS = 3;

/** A service that stood still may count a request of its queue this long after the request's end, ms. */
const COUNTED_LATE_MS = 300_000;

export class Pacer {
  /** Reads everything that is shared, without taking part. */
  readonly snapshot: () => Promise<QuotaSnapshot>;
  readonly #options: PacerOptions;
  readonly #keys: readonly [pace: string, inFlight: string, priorities: string];
  /** Time in which the steady bucket gains one token. */
  readonly #steadyMs: number;
  readonly #dayMs: number;
  /** Turns at once from the steady bucket. The other half of it covers delays on the way. */
  readonly #depth: number;
  readonly #lookMs: number;
  /** What a waiter looks at again: a change that came meanwhile may take its turn earlier. */
  #awaited: { readonly lane: Lane; readonly pace: NonNullable<Pace>; looks: number } | undefined;
  readonly #claimTurn: RedisScript<number>;
  readonly #turnWait: RedisScript<number>;
  readonly #returnTurn: RedisScript<number>;
  readonly #answered: RedisScript<number>;
  readonly #unanswered: RedisScript<number>;
  readonly #throttled: RedisScript<[string, number, number]>;

  constructor(redis: Redis, keys: QuotaKeys, options: PacerOptions) {
    this.#options = options;
    this.#keys = [keys.pace, keys.inFlight, keys.priorities];
    this.#steadyMs = options.hourMs / options.perHour;
    this.#dayMs = DAY_HOURS * options.hourMs;
    this.#lookMs = Math.max(LOOK_LEAST_MS, options.hourMs / LOOKS_PER_HOUR);
    this.#depth = Math.max(1, Math.floor(options.burst / 2));
    this.snapshot = createSnapshotReader(redis, keys, options);
    this.#claimTurn = redisScript(redis, new URL("./lua/claim-turn.lua", import.meta.url));
    this.#turnWait = redisScript(redis, new URL("./lua/turn-wait.lua", import.meta.url));
    this.#returnTurn = redisScript(redis, new URL("./lua/return-turn.lua", import.meta.url));
    this.#answered = redisScript(redis, new URL("./lua/answered.lua", import.meta.url));
    this.#unanswered = redisScript(redis, new URL("./lua/unanswered.lua", import.meta.url));
    this.#throttled = redisScript(redis, new URL("./lua/throttled.lua", import.meta.url));
  }

  /** Takes a turn for a permit, or returns how long to wait before the next try. */
  async takeTurn(lane: Lane, permitId: string): Promise<Turn> {
    const ms = await this.#look(lane);
    if (ms > 0) return { kind: "wait", ms };
    return this.#claim(lane, permitId);
  }

  async #claim(lane: Lane, permitId: string): Promise<Turn> {
    this.#awaited = undefined;
    const snapshot = await this.snapshot();
    const { now, stopUntil, nextReturnAt, pacing } = snapshot;
    if (stopUntil > now) return { kind: "wait", ms: stopUntil - now };
    const pace = paceOf(snapshot, lane);
    if (pace === undefined) {
      return { kind: "wait", ms: Math.max(this.#steadyMs, nextReturnAt - now) };
    }
    const { intervalMs, early } = pace;
    const ms = await this.#claimTurn(this.#keys, [
      pacing,
      intervalMs,
      this.#steadyMs,
      this.#options.burst,
      this.#depth,
      permitId,
      IN_FLIGHT_MAX_MS,
      early,
    ]);
    if (ms <= 0) return { kind: "taken", pacing, intervalMs, snapshot };
    if (early === 0) return { kind: "wait", ms };
    this.#awaited = { lane, pace, looks: LOOKS };
    return { kind: "wait", ms: Math.min(ms, this.#lookMs) };
  }

  /** How long it is until the turn that a waiter of this lane waits for; 0 when it must try to take one. */
  async #look(lane: Lane): Promise<number> {
    const awaited = this.#awaited;
    if (awaited?.lane !== lane || awaited.looks === 0) return 0;
    awaited.looks -= 1;
    const { intervalMs, early } = awaited.pace;
    const [pace, , priorities] = this.#keys;
    const ms = await this.#turnWait([pace, priorities], [intervalMs, early]);
    return Math.min(ms, this.#lookMs);
  }

  /** Returns a turn that was not used. */
  async returnTurn(permitId: string, { intervalMs, pacing, snapshot }: TakenTurn): Promise<void> {
    if (intervalMs === 0 && pacing === "free" && snapshot.failures === 0) return;
    await this.#returnTurn(this.#keys, [permitId, intervalMs, this.#steadyMs, pacing]);
  }

  /**
   * Learns from a reply that is not a 429.
   * @param tripMs time from the permit to the reply.
   * @returns whether this reply proved that bursts are allowed.
   */
  async answered(permitId: string, accepted: boolean, tripMs: number): Promise<boolean> {
    const proved = await this.#answered(this.#keys, [
      permitId,
      this.#steadyMs,
      this.#options.burst,
      PROOF_MARGIN,
      this.#dayMs,
      accepted ? "1" : "0",
      tripMs,
    ]);
    return proved === 1;
  }

  /** Notes that a request got no reply. */
  async unanswered(): Promise<void> {
    await this.#unanswered([this.#keys[0]]);
  }

  /**
   * Stops all processes after a 429.
   * @param waitMs what its headers ask for; undefined when they say nothing usable.
   * @param unexplained whether our own count did not foresee it.
   */
  async throttled(
    permitId: string,
    waitMs: number | undefined,
    unexplained: boolean,
  ): Promise<Throttled> {
    const [until, switched, stopped] = await this.#throttled(this.#keys, [
      permitId,
      waitMs ?? "",
      this.#options.pacing === "auto" && unexplained ? "1" : "0",
      this.#steadyMs,
      this.#depth,
      this.#dayMs,
      BACKOFF_BASE_MS,
      BACKOFF_CAP_MS,
      Math.random(),
      BELIEVED_STOPS,
      COUNTED_LATE_MS,
    ]);
    return { until: Number(until), switched: switched === 1, stopped: stopped === 1 };
  }
}
