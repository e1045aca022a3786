/** How requests are counted. The spec gives the limits and leaves the way of counting open. */
export const POLICIES = ["fixed", "sliding", "bucket"] as const;
export type Policy = (typeof POLICIES)[number];

export interface Limits {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
}

export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  /** When the hour's quota is whole again. */
  readonly resetAtMs: number;
}
export type Verdict = QuotaState &
  ({ readonly granted: true } | { readonly granted: false; readonly retryAtMs: number });

/** Counts the requests of one client. Refused requests are not counted. */
export interface Meter {
  take(nowMs: number): Verdict;
  state(nowMs: number): QuotaState;
}

export function createMeter(policy: Policy, limits: Limits): Meter {
  switch (policy) {
    case "fixed":
      return new WindowMeter(
        new FixedWindow(limits.perHour, limits.hourMs),
        new FixedWindow(limits.burst, limits.burstMs),
      );
    case "sliding":
      return new WindowMeter(
        new SlidingWindow(limits.perHour, limits.hourMs),
        new SlidingWindow(limits.burst, limits.burstMs),
      );
    case "bucket":
      return new BucketMeter(limits);
  }
}

interface Window {
  readonly limit: number;
  remaining(nowMs: number): number;
  count(nowMs: number): void;
  /** When at least one request has room, and when all have. */
  roomAt(nowMs: number): number;
  wholeAt(nowMs: number): number;
}

/** A window opens with the first request after the last one closed. */
class FixedWindow implements Window {
  readonly limit: number;
  readonly #lengthMs: number;
  #closesAtMs = Number.NEGATIVE_INFINITY;
  #counted = 0;

  constructor(limit: number, lengthMs: number) {
    this.limit = limit;
    this.#lengthMs = lengthMs;
  }

  remaining(nowMs: number): number {
    return nowMs >= this.#closesAtMs ? this.limit : Math.max(0, this.limit - this.#counted);
  }

  count(nowMs: number): void {
    if (nowMs >= this.#closesAtMs) {
      this.#closesAtMs = nowMs + this.#lengthMs;
      this.#counted = 0;
    }
    this.#counted += 1;
  }

  roomAt(nowMs: number): number {
    return this.remaining(nowMs) > 0 ? nowMs : this.#closesAtMs;
  }

  wholeAt(nowMs: number): number {
    return nowMs >= this.#closesAtMs ? nowMs + this.#lengthMs : this.#closesAtMs;
  }
}

/** A request counts for the window's length after it came: no span of that length has more. */
class SlidingWindow implements Window {
  readonly limit: number;
  readonly #lengthMs: number;
  /** Times of the counted requests; those before `#first` have left the window. */
  #times: number[] = [];
  #first = 0;

  constructor(limit: number, lengthMs: number) {
    this.limit = limit;
    this.#lengthMs = lengthMs;
  }

  remaining(nowMs: number): number {
    this.#forget(nowMs);
    return Math.max(0, this.limit - (this.#times.length - this.#first));
  }

  count(nowMs: number): void {
    this.#times.push(nowMs);
  }

  roomAt(nowMs: number): number {
    if (this.remaining(nowMs) > 0) return nowMs;
    return (this.#times[this.#times.length - this.limit] ?? nowMs) + this.#lengthMs;
  }

  wholeAt(nowMs: number): number {
    this.#forget(nowMs);
    return (this.#times.at(-1) ?? nowMs) + this.#lengthMs;
  }

  #forget(nowMs: number): void {
    while (
      this.#first < this.#times.length &&
      this.#times[this.#first]! <= nowMs - this.#lengthMs
    ) {
      this.#first += 1;
    }
    if (this.#first > 1000 && this.#first * 2 > this.#times.length) {
      this.#times = this.#times.slice(this.#first);
      this.#first = 0;
    }
  }
}

/** An hour and a burst window; both must have room. */
class WindowMeter implements Meter {
  readonly #hour: Window;
  readonly #burst: Window;

  constructor(hour: Window, burst: Window) {
    this.#hour = hour;
    this.#burst = burst;
  }

  take(nowMs: number): Verdict {
    const granted = this.#hour.remaining(nowMs) > 0 && this.#burst.remaining(nowMs) > 0;
    if (!granted) {
      const retryAtMs = Math.max(this.#hour.roomAt(nowMs), this.#burst.roomAt(nowMs));
      return { granted, retryAtMs, ...this.state(nowMs) };
    }
    this.#hour.count(nowMs);
    this.#burst.count(nowMs);
    return { granted, ...this.state(nowMs) };
  }

  state(nowMs: number): QuotaState {
    return {
      limit: this.#hour.limit,
      remaining: this.#hour.remaining(nowMs),
      resetAtMs: this.#hour.wholeAt(nowMs),
    };
  }
}

/**
 * The harshest reading of the limits: a bucket that holds one burst and is refilled at the
 * hour's rate.
 */
class BucketMeter implements Meter {
  readonly #limits: Limits;
  readonly #msPerToken: number;
  #tokens: number;
  #atMs = Number.NEGATIVE_INFINITY;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#msPerToken = limits.hourMs / limits.perHour;
    this.#tokens = limits.burst;
  }

  take(nowMs: number): Verdict {
    this.#refill(nowMs);
    // Refilled tokens are sums of fractions: a whole one may come out a hair short.
    const granted = this.#tokens >= 1 - 1e-9;
    if (!granted) {
      const retryAtMs = nowMs + (1 - this.#tokens) * this.#msPerToken;
      return { granted, retryAtMs, ...this.state(nowMs) };
    }
    this.#tokens -= 1;
    return { granted, ...this.state(nowMs) };
  }

  state(nowMs: number): QuotaState {
    this.#refill(nowMs);
    return {
      limit: this.#limits.perHour,
      remaining: Math.max(0, Math.floor(this.#tokens + 1e-9)),
      resetAtMs: nowMs + (this.#limits.burst - this.#tokens) * this.#msPerToken,
    };
  }

  #refill(nowMs: number): void {
    const gained = (nowMs - this.#atMs) / this.#msPerToken;
    this.#tokens = Math.min(this.#limits.burst, this.#tokens + gained);
    this.#atMs = nowMs;
  }
}
