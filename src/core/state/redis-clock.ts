/**
 * Redis' time, as this process knows it: its monotonic clock, and how far Redis was ahead of that when
 * it was measured last. Times in Redis are compared with this one; the machine's own clock may be wrong.
 */
import { uptime } from "node:os";
import { reading, type Meaning } from "../../base/redis-reading.ts";
import type { Keys } from "./keys.ts";
import { Store } from "./store.ts";

/** Times of arrival that are remembered, at most, and for how long, ms. */
const ARRIVALS_MAX = 10_000;
const ARRIVALS_MS = 600_000;

/** A slower round trip says too little about the clock, ms: the process may have been frozen. */
const SLOW_MS = 1000;

/** Redis' clock has stepped when it differs by more from what this process expects, ms. */
const STEP_MS = 1000;

/** A machine that was asleep for longer than this cannot tell a step, s. */
const SLEPT_S = 3;

/** How much later than the latest measured time a process may have told it, ms: clock.ts measures every 2 s. */
const UNMEASURED_MS = 10_000;

/** The shortest of this many round trips counts: a single late reply does not make a slow Redis. */
const ROUND_TRIPS = 5;

export class RedisClock extends Store {
  readonly #arrival = this.script<number>("arrival");
  readonly #measure = this.script<[now: number, latest: number]>("measure-clock");
  readonly #known = Promise.withResolvers<void>();
  /** Resolves when the clock is known. */
  readonly known = this.#known.promise;
  /** Redis' time at the moment when performance.now() was 0, ms. */
  #origin: number | undefined;
  /** No event arrives before this: Redis' clock was set back, and earlier events have later times, ms. */
  #earliest = 0;
  /** What the machine counted beyond performance.now() when the clock was measured, s: its sleep. */
  #sleptS = 0;
  #aheadMs = 0;
  /** How wrong the origin may be, ms: half the round trip. */
  #wrongMs = 0;
  #tripsMs: readonly number[] = [];

  /** @returns how far Redis' clock was set since the last measurement of any process, ms; 0: it was not. */
  async measure(): Promise<number> {
    const asked = performance.now();
    const [now, latest] = await this.#measure([this.keys.clock], [STEP_MS, Date.now()]);
    const tripMs = performance.now() - asked;
    this.#tripsMs = [...this.#tripsMs, tripMs].slice(-ROUND_TRIPS);
    this.#earliest = latest - now > STEP_MS ? latest + UNMEASURED_MS : 0;
    if (tripMs > SLOW_MS && this.#origin !== undefined) return 0;
    const origin = now - asked - tripMs / 2;
    this.#aheadMs = Date.now() - (origin + performance.now());
    const sleptS = uptime() - performance.now() / 1000;
    const hasSlept = sleptS - this.#sleptS > SLEPT_S;
    const stepMs =
      this.#origin === undefined ? now - latest : hasSlept ? 0 : Math.round(origin - this.#origin);
    const wrongMs = tripMs / 2;
    const isTold = Math.abs(stepMs) > STEP_MS + this.#wrongMs + wrongMs;
    this.#wrongMs = wrongMs;
    this.#sleptS = sleptS;
    this.#origin = origin;
    this.#known.resolve();
    if (!isTold) return 0;
    await this.write("HSET", this.keys.clock, "stepMs", stepMs, "steppedAt", now);
    return stepMs;
  }

  /** How this process sees Redis; undefined until the clock was measured. */
  view(): { readonly pingMs?: number; readonly clockAheadMs: number } | undefined {
    if (this.#origin === undefined) return undefined;
    const pingMs = Math.round(Math.min(...this.#tripsMs) * 10) / 10;
    const clockAheadMs = Math.round(this.#aheadMs);
    return { clockAheadMs, ...(this.#tripsMs.length === ROUND_TRIPS && { pingMs }) };
  }

  /** Redis' time, ms; this machine's until it is known. */
  now(): number {
    return this.#origin === undefined ? Date.now() : Math.floor(this.#origin + performance.now());
  }

  /** As now(), but not before what was told before Redis' clock was set back: for the times of events. */
  latest(): number {
    return Math.max(this.now(), this.#earliest);
  }

  /**
   * When an event arrived, ms, or when it was sent: never later than an event of a higher number.
   * @param number of its arrival; `countKey` has the highest one so far.
   * @param sentAt by the clock of its sender, ms.
   */
  async arrival(number: number, countKey: string, sentAt?: number): Promise<number> {
    const args = [number, sentAt ?? "", ARRIVALS_MAX, ARRIVALS_MS, Math.ceil(this.#earliest)];
    return this.#arrival([this.keys.arrivals, countKey], args);
  }
}

/** How far Redis' clock was set last, ms (negative: back), and when that was found, by Redis' time; undefined: never. */
export const clockStepReading = (keys: Keys) =>
  reading(
    ["hmget", keys.clock, "stepMs", "steppedAt"],
    ([stepMs, at]: [string | null, string | null]) =>
      stepMs === null ? undefined : { stepMs: Number(stepMs), at: Number(at) },
  );

export type ClockStep = NonNullable<Meaning<ReturnType<typeof clockStepReading>>>;
