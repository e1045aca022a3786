/**
 * Whose turn it is: pauses after a 429, pacing, and how the service takes bursts. Everything is
 * shared through Redis, so every process sees and decides the same.
 */
import type { Redis, Result } from "ioredis";
import { SLICES_KEPT, sliceMs } from "./slices.ts";
import type { Lane } from "../sync/lane.ts";
import { ANSWERED, CLAIM, LOOK, RETURN, THROTTLED } from "./pacer-scripts.ts";
import { paceOf, HOUR_PARTS, type PacingView } from "./pacing.ts";
import type { QuotaKeys } from "./quota-keys.ts";

/** How requests may follow each other: see docs/adr/0002. */
export const PACINGS = ["auto", "burst", "steady"] as const;
export type Pacing = (typeof PACINGS)[number];

/** `auto` as it stands: bursts are allowed, are being tried one by one, or are given up for a day. */
export type Mode = "free" | "probing" | "steady";

export interface PacerOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  readonly pacing: Pacing;
  readonly liveReserve: number;
  /** How long after its window a lease of the hour ends by itself, ms. */
  readonly hourHoldMs: number;
}

/** One look at everything shared. Times in ms since the epoch, by Redis' clock. */
export interface QuotaSnapshot extends PacingView {
  readonly now: number;
  /** Leases of the hour ever taken. */
  readonly taken: number;
  readonly running: number;
  /** When the next spent slot returns, and the last one; `now` when none is spent. */
  readonly nextReturnAt: number;
  readonly wholeAt: number;
  readonly stopUntil: number;
  readonly mode: Mode;
  /** 429s in a row whose headers said nothing usable. */
  readonly inARow: number;
}

/** A turn that was taken, as it stood then. */
export interface TakenTurn {
  readonly kind: "taken";
  readonly mode: Mode;
  readonly intervalMs: number;
  readonly snapshot: QuotaSnapshot;
}

export type Turn = TakenTurn | { readonly kind: "wait"; readonly ms: number };

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncQuotaLook(keys: number, ...args: (string | number)[]): Result<string, Context>;
    crmsyncQuotaClaim(keys: number, ...args: (string | number)[]): Result<number, Context>;
    crmsyncQuotaReturn(keys: number, ...args: (string | number)[]): Result<number, Context>;
    crmsyncQuotaAnswered(keys: number, ...args: (string | number)[]): Result<number, Context>;
    crmsyncQuotaThrottled(
      keys: number,
      ...args: (string | number)[]
    ): Result<[string, number, number], Context>;
  }
}

/** In hours: how long steady pacing lasts after an unexplained 429, and a proof that bursts are fine. */
const DAY = 24;

/** Tokens below zero at which no bucket of one burst could have accepted a request. */
const PROOF_MARGIN = 0.5;

/** Longest time that a request under way keeps others from being tried, ms. */
const PROBE_HOLD_MS = 35_000;

const BACKOFF_BASE_MS = 1000;
const BACKOFF_CAP_MS = 300_000;

export type Pacer = ReturnType<typeof createPacer>;

export function createPacer(redis: Redis, keys: QuotaKeys, options: PacerOptions) {
  redis.defineCommand("crmsyncQuotaLook", { lua: LOOK });
  redis.defineCommand("crmsyncQuotaClaim", { lua: CLAIM });
  redis.defineCommand("crmsyncQuotaReturn", { lua: RETURN });
  redis.defineCommand("crmsyncQuotaAnswered", { lua: ANSWERED });
  redis.defineCommand("crmsyncQuotaThrottled", { lua: THROTTLED });
  const steadyMs = options.hourMs / options.perHour;
  const dayMs = DAY * options.hourMs;
  // Half the bucket stays unused: it covers what lies between a permit and its arrival.
  const depth = Math.max(1, Math.floor(options.burst / 2));

  function modeOf(raw: RawLook): Mode {
    if (options.pacing === "burst") return "free";
    if (options.pacing === "steady" || raw.steady > raw.now) return "steady";
    return raw.proven > raw.now ? "free" : "probing";
  }

  async function look(): Promise<QuotaSnapshot> {
    const json = await redis.crmsyncQuotaLook(
      ...([4, keys.pace, `${keys.hour}_settings`, `${keys.hour}_job_expirations`] as const),
      ...([keys.priorities, keys.demand, options.hourMs, options.hourHoldMs] as const),
      ...([HOUR_PARTS, Math.ceil(sliceMs(options.hourMs)), SLICES_KEPT] as const),
    );
    const raw = JSON.parse(json) as RawLook;
    const limit = raw.limit > 0 ? raw.limit : options.perHour;
    const { now, running, returns, demand, current, waiting } = raw;
    return {
      now,
      limit,
      running,
      returns,
      demand,
      current,
      waiting,
      taken: running + raw.done,
      remaining: Math.max(0, limit - running),
      nextReturnAt: raw.first === 0 ? now : Math.max(now, raw.first - options.hourHoldMs),
      wholeAt: raw.last === 0 ? now : Math.max(now, raw.last - options.hourHoldMs),
      stopUntil: raw.stop,
      mode: modeOf(raw),
      inARow: raw.row,
      hourMs: options.hourMs,
      liveReserve: options.liveReserve,
    };
  }

  return {
    look,

    async turn(lane: Lane, permitId: string): Promise<Turn> {
      const seen = await look();
      if (seen.stopUntil > seen.now) return { kind: "wait", ms: seen.stopUntil - seen.now };
      const { mode } = seen;
      const pace = paceOf(seen, lane);
      if (pace === undefined) {
        return { kind: "wait", ms: Math.max(steadyMs, seen.nextReturnAt - seen.now) };
      }
      const ms = await redis.crmsyncQuotaClaim(
        ...([2, keys.pace, keys.open, mode, pace, steadyMs] as const),
        ...([options.burst, depth, permitId, PROBE_HOLD_MS] as const),
      );
      return ms > 0
        ? { kind: "wait", ms }
        : { kind: "taken", mode, intervalMs: pace, snapshot: seen };
    },

    /** A turn that was not used. */
    async giveBack(permitId: string, turn: TakenTurn): Promise<void> {
      if (turn.intervalMs === 0 && turn.mode === "free") return;
      await redis.crmsyncQuotaReturn(
        ...([2, keys.pace, keys.open, permitId, turn.intervalMs, steadyMs, turn.mode] as const),
      );
    },

    /** @returns whether this answer proved that bursts are allowed. */
    async answered(permitId: string, accepted: boolean, tripMs: number): Promise<boolean> {
      const proved = await redis.crmsyncQuotaAnswered(
        ...([2, keys.pace, keys.open, permitId, steadyMs, options.burst] as const),
        ...([PROOF_MARGIN, dayMs, accepted ? "1" : "0", tripMs] as const),
      );
      return proved === 1;
    },

    async throttled(permitId: string, waitMs: number | undefined, unexplained: boolean) {
      const steadies = options.pacing === "auto" && unexplained;
      const [until, switched, stopped] = await redis.crmsyncQuotaThrottled(
        ...([2, keys.pace, keys.open, permitId, waitMs ?? "", steadies ? "1" : "0"] as const),
        ...([steadyMs, depth, dayMs, BACKOFF_BASE_MS, BACKOFF_CAP_MS, Math.random()] as const),
      );
      return { until: Number(until), switched: switched === 1, stopped: stopped === 1 };
    },
  };
}

interface RawLook {
  readonly now: number;
  readonly limit: number;
  readonly running: number;
  readonly done: number;
  readonly returns: readonly number[];
  readonly demand: readonly number[];
  readonly current: { readonly changed: number; readonly passed: number };
  readonly waiting: number;
  readonly first: number;
  readonly last: number;
  readonly stop: number;
  readonly row: number;
  readonly steady: number;
  readonly proven: number;
}
