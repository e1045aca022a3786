/**
 * The clock that all processes share: Redis' clock, from which its steps are taken out. A machine's
 * clock may be wrong, and Redis' clock may be put right while changes wait: neither may end a pause or
 * a lease early, or make one last longer. Between two measurements a process counts by its monotonic
 * clock, which never steps; so it notices a step of Redis' clock, and corrects the shared one. That one
 * never goes back, not even over a restart.
 */
import { uptime } from "node:os";
import type { Redis } from "ioredis";
import { reading, scriptReading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

/** Times of arrival that are remembered, at most, and for how long, ms. */
const ARRIVALS_MAX = 10_000;
const ARRIVALS_MS = 600_000;

/** A round trip that takes longer says little about the clock: the process may have been frozen, ms. */
const SLOW_MS = 1000;

/** The shortest of this many round trips counts: a single late reply does not make a slow Redis. */
const ROUND_TRIPS = 5;

/** Redis' clock has stepped when it differs by more; less is followed, ms. */
const STEP_MS = 1000;

/** When another process found the clock right within this time, this process is wrong, ms. */
const CONFIRMED_MS = 3000;

/** A machine that was asleep for longer than this cannot tell a step, s. */
const SLEPT_S = 3;

/**
 * After a step, the part of the time by which the shared clock approaches Redis' clock again: 18 s in
 * an hour, less than a lease of the hour outlives its window. One approach a second, ms.
 */
const APPROACH = [0.005, 1000, 60_000] as const;

/** This machine's own clock: in a daemon, Date.now() is the shared one (workers/clock.ts). */
const ownNow = Date.now;

interface Read {
  /** Redis' own clock, ms; by how much the shared one differs; when a process last confirmed it. */
  readonly own: number;
  readonly offset: number;
  readonly confirmed: number | undefined;
  /** By performance.now(). */
  readonly asked: number;
  readonly answered: number;
}

export class RedisClock {
  readonly #keys: Keys;
  readonly #arrival: RedisScript<number>;
  readonly #read: RedisScript<[seconds: string, micros: string, offset: number, confirmed: string]>;
  readonly #correct: RedisScript<number>;
  /** Resolves when the clock is known. */
  readonly known: Promise<void>;
  #setKnown: () => void;
  /** The shared time at the moment when performance.now() was 0, ms. */
  #origin: number | undefined;
  /** By how much the shared clock differs from Redis' own, ms. */
  #offset = 0;
  /** What the machine counted beyond performance.now() when the clock was measured, s: its sleep. */
  #sleptS = 0;
  /** How far this machine's clock is ahead of Redis' clock, ms. */
  #aheadMs = 0;
  #roundTripsMs: readonly number[] = [];

  constructor(redis: Redis, keys: Keys) {
    this.#keys = keys;
    this.#arrival = redisScript(redis, new URL("./lua/arrival.lua", import.meta.url));
    this.#read = redisScript(redis, new URL("./lua/read-clock.lua", import.meta.url));
    this.#correct = redisScript(redis, new URL("./lua/correct-clock.lua", import.meta.url));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.known = promise;
    this.#setKnown = resolve;
  }

  /**
   * Reads the clock. @returns the step of Redis' clock that this call has taken out, ms; else 0.
   * @param isRare no process has read it lately, so that none could confirm it: a step is left in, and
   * `undefined` says that it must be read again, after the others have.
   */
  async measure(isRare?: false): Promise<number>;
  async measure(isRare: boolean): Promise<number | undefined>;
  async measure(isRare = false): Promise<number | undefined> {
    const first = await this.#readOnce(!isRare);
    const second = tripMs(first) > SLOW_MS ? await this.#readOnce(!isRare) : first;
    const read = tripMs(second) < tripMs(first) ? second : first;
    this.#aheadMs = ownNow() - (read.own + performance.now() - read.asked - tripMs(read) / 2);
    this.#roundTripsMs = [...this.#roundTripsMs, tripMs(read)].slice(-ROUND_TRIPS);
    const stepMs = this.#stepIn(read);
    if (stepMs !== 0) {
      if (isRare) return undefined;
      const args = [read.offset, Math.round(stepMs), STEP_MS];
      // If another process was first, the next measurement finds the clock corrected.
      if ((await this.#correct([this.#keys.clock], args)) === 0) return 0;
      this.#follow({ ...read, offset: read.offset - Math.round(stepMs) });
      return stepMs;
    }
    this.#follow(read);
    return 0;
  }

  /** How far Redis' own clock is from where this process expects it; 0 when that is no step. */
  #stepIn(read: Read): number {
    const sleptS = uptime() - performance.now() / 1000;
    const hasSlept = sleptS - this.#sleptS > SLEPT_S;
    this.#sleptS = sleptS;
    if (this.#origin === undefined) return stepBackBefore(read);
    if (hasSlept || isConfirmed(read)) return 0;
    const offMs = originIn(read, this.#origin) - this.#origin;
    return Math.abs(offMs) > STEP_MS ? offMs : 0;
  }

  #follow(read: Read): void {
    this.#origin = originIn(read, this.#origin);
    this.#offset = read.offset;
    this.#setKnown();
  }

  /** @param confirms whether to note in Redis that the clock is where it is expected. */
  async #readOnce(confirms: boolean): Promise<Read> {
    const asked = performance.now();
    const expected = confirms ? this.nowIfKnown() : undefined;
    const args = [...APPROACH, expected ?? "", STEP_MS];
    const [seconds, micros, offset, confirmed] = await this.#read([this.#keys.clock], args);
    return {
      own: Number(seconds) * 1000 + Number(micros) / 1000,
      offset,
      confirmed: confirmed === "" ? undefined : Number(confirmed),
      asked,
      answered: performance.now(),
    };
  }

  /** How this process sees Redis; undefined until the clock was measured. */
  view(): { readonly pingMs?: number; readonly clockAheadMs: number } | undefined {
    if (this.#origin === undefined) return undefined;
    const trips = this.#roundTripsMs;
    const pingMs = Math.round(Math.min(...trips) * 10) / 10;
    return {
      clockAheadMs: Math.round(this.#aheadMs),
      ...(trips.length === ROUND_TRIPS && { pingMs }),
    };
  }

  /** The shared time, ms; this machine's own until it is known. */
  now(): number {
    return this.nowIfKnown() ?? ownNow();
  }

  /** The shared time, ms. */
  nowIfKnown(): number | undefined {
    return this.#origin === undefined ? undefined : Math.floor(this.#origin + performance.now());
  }

  /**
   * What time it may be for other machines, ms: the shared time, and after a step also that of Redis' own
   * clock. Nobody knows which of them is right: the step may have put that clock right, or wrong.
   */
  presents(): readonly number[] {
    const now = this.now();
    return this.#offset === 0 ? [now] : [now, now - this.#offset];
  }

  /** The latest of them. */
  latest(): number {
    return Math.max(...this.presents());
  }

  /**
   * When an event arrived, ms, or when it was sent: never later than an event of a higher number.
   * @param number of its arrival; `countKey` has the highest one so far.
   * @param sentAt by the clock of its sender, ms.
   */
  async arrival(number: number, countKey: string, sentAt?: number): Promise<number> {
    const args = [number, sentAt ?? "", ARRIVALS_MAX, ARRIVALS_MS];
    return this.#arrival([this.#keys.arrivals, countKey], args);
  }
}

/** The shared time, ms. */
export const nowReading = (keys: Keys): Reading<number> =>
  scriptReading(new URL("./lua/tell-now.lua", import.meta.url), [keys.clock], [], Number);

/** How far the shared time is ahead of Redis' own clock, since that was set, ms; negative: behind. */
export const sharedAheadReading = (keys: Keys): Reading<number> =>
  reading(["hget", keys.clock, "offset"], Number);

/** After a step of Redis' clock, the last confirmation lies long ago, or ahead. */
const isConfirmed = ({ own, confirmed }: Read): boolean =>
  confirmed !== undefined && own >= confirmed && own - confirmed < CONFIRMED_MS;

/**
 * At least how far Redis' clock was set back after the last process ended, ms, as a negative number; 0: it was not.
 * With this step taken out, a new change does not count as older than a change from before the restart. A step
 * forward cannot be seen: it looks like the time in which no process ran.
 */
function stepBackBefore({ own, confirmed = own }: Read): number {
  return confirmed - own > STEP_MS ? own - confirmed : 0;
}

const tripMs = ({ asked, answered }: Read): number => answered - asked;

/** The origin that a reading shows. Redis read its clock at some time of the round trip. */
function originIn({ own, offset, asked, answered }: Read, before: number | undefined): number {
  const [least, most] = [own + offset - answered, own + offset - asked];
  return before === undefined ? (least + most) / 2 : Math.min(Math.max(before, least), most);
}
