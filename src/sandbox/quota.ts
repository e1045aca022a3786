/** How requests are counted: the spec gives the limits, but not the algorithm. */
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
  /** When the hour's quota is full again; now, if it is full. */
  readonly resetAtMs: number;
}
export type CountResult = QuotaState &
  ({ readonly counted: true } | { readonly counted: false; readonly retryAtMs: number });

/** Counts the requests of one client. Its times are of a clock that never steps, ms. */
export interface Meter {
  /** Counts a request if the limits allow it; otherwise tells when to retry. */
  count(nowMs: number): CountResult;
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
    // The strictest reading of the limits. The hour still counts: a full bucket adds to what flows in.
    case "bucket":
      return new WindowMeter(
        new SlidingWindow(limits.perHour, limits.hourMs),
        new TokenBucket(limits.burst, limits.hourMs / limits.perHour),
      );
  }
}

interface Window {
  readonly limit: number;
  remaining(nowMs: number): number;
  count(nowMs: number): void;
  /** When at least one request is allowed. */
  freeAt(nowMs: number): number;
  /** When the whole limit is allowed again. */
  fullAt(nowMs: number): number;
}

/** A window opens with the first request after the previous window closed. */
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

  freeAt(nowMs: number): number {
    return this.remaining(nowMs) > 0 ? nowMs : this.#closesAtMs;
  }

  fullAt(nowMs: number): number {
    return Math.max(nowMs, this.#closesAtMs);
  }
}

/** Counts each request for the length of the window: no span of that length exceeds the limit. */
class SlidingWindow implements Window {
  readonly limit: number;
  readonly #lengthMs: number;
  /** Times of the counted requests; those before index `#first` have left the window. */
  #times: number[] = [];
  #first = 0;

  constructor(limit: number, lengthMs: number) {
    this.limit = limit;
    this.#lengthMs = lengthMs;
  }

  remaining(nowMs: number): number {
    this.#dropOld(nowMs);
    return Math.max(0, this.limit - (this.#times.length - this.#first));
  }

  count(nowMs: number): void {
    this.#times.push(nowMs);
  }

  freeAt(nowMs: number): number {
    if (this.remaining(nowMs) > 0) return nowMs;
    return (this.#times[this.#times.length - this.limit] ?? nowMs) + this.#lengthMs;
  }

  fullAt(nowMs: number): number {
    return Math.max(nowMs, (this.#times.at(-1) ?? Number.NEGATIVE_INFINITY) + this.#lengthMs);
  }

  #dropOld(nowMs: number): void {
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

/** Takes one token for each request; tokens flow in at an even rate. */
class TokenBucket implements Window {
  readonly limit: number;
  readonly #msPerToken: number;
  #tokens: number;
  #atMs = Number.NEGATIVE_INFINITY;

  constructor(limit: number, msPerToken: number) {
    this.limit = limit;
    this.#msPerToken = msPerToken;
    this.#tokens = limit;
  }

  remaining(nowMs: number): number {
    this.#tokens = Math.min(this.limit, this.#tokens + (nowMs - this.#atMs) / this.#msPerToken);
    this.#atMs = nowMs;
    // Refilled tokens are sums of fractions: rounding can leave a whole token slightly below 1.
    return Math.floor(this.#tokens + 1e-9);
  }

  count(): void {
    this.#tokens -= 1;
  }

  freeAt(nowMs: number): number {
    if (this.remaining(nowMs) > 0) return nowMs;
    return nowMs + (1 - this.#tokens) * this.#msPerToken;
  }

  fullAt(nowMs: number): number {
    return nowMs + (this.limit - this.#tokens) * this.#msPerToken;
  }
}

/** An hour and a burst window: a request must fit into both. */
class WindowMeter implements Meter {
  readonly #hour: Window;
  readonly #burst: Window;

  constructor(hour: Window, burst: Window) {
    this.#hour = hour;
    this.#burst = burst;
  }

  count(nowMs: number): CountResult {
    const counted = this.#hour.remaining(nowMs) > 0 && this.#burst.remaining(nowMs) > 0;
    if (!counted) {
      const retryAtMs = Math.max(this.#hour.freeAt(nowMs), this.#burst.freeAt(nowMs));
      return { counted, retryAtMs, ...this.state(nowMs) };
    }
    this.#hour.count(nowMs);
    this.#burst.count(nowMs);
    return { counted, ...this.state(nowMs) };
  }

  state(nowMs: number): QuotaState {
    return {
      limit: this.#hour.limit,
      remaining: this.#hour.remaining(nowMs),
      resetAtMs: this.#hour.fullAt(nowMs),
    };
  }
}
