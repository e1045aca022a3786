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

/** A request must fit into the hour and into the burst window. */
export function createMeter(policy: Policy, limits: Limits): Meter {
  const [hour, burst] = windowsOf(policy, limits);
  const state = (nowMs: number): QuotaState => ({
    limit: limits.perHour,
    remaining: hour.remaining(nowMs),
    resetAtMs: hour.fullAt(nowMs),
  });
  return {
    state,
    count(nowMs) {
      const counted = hour.remaining(nowMs) > 0 && burst.remaining(nowMs) > 0;
      if (!counted) {
        const retryAtMs = Math.max(hour.freeAt(nowMs), burst.freeAt(nowMs));
        return { counted, retryAtMs, ...state(nowMs) };
      }
      hour.count(nowMs);
      burst.count(nowMs);
      return { counted, ...state(nowMs) };
    },
  };
}

function windowsOf(policy: Policy, limits: Limits): [hour: Window, burst: Window] {
  const { burst, burstMs, hourMs, perHour } = limits;
  switch (policy) {
    case "fixed":
      return [fixedWindow(perHour, hourMs), fixedWindow(burst, burstMs)];
    case "sliding":
      return [slidingWindow(perHour, hourMs), slidingWindow(burst, burstMs)];
    // The strictest reading of the limits. The hour still counts: a full bucket adds to what flows in.
    case "bucket":
      return [slidingWindow(perHour, hourMs), tokenBucket(burst, hourMs / perHour)];
  }
}

interface Window {
  remaining(nowMs: number): number;
  count(nowMs: number): void;
  /** When at least one request is allowed. */
  freeAt(nowMs: number): number;
  /** When the whole limit is allowed again. */
  fullAt(nowMs: number): number;
}

/** A window opens with the first request after the previous window closed. */
function fixedWindow(limit: number, lengthMs: number): Window {
  let closesAtMs = Number.NEGATIVE_INFINITY;
  let counted = 0;
  const remaining = (nowMs: number) => (nowMs >= closesAtMs ? limit : limit - counted);
  return {
    remaining,
    count(nowMs) {
      if (nowMs >= closesAtMs) {
        closesAtMs = nowMs + lengthMs;
        counted = 0;
      }
      counted += 1;
    },
    freeAt: (nowMs) => (remaining(nowMs) > 0 ? nowMs : closesAtMs),
    fullAt: (nowMs) => Math.max(nowMs, closesAtMs),
  };
}

/** Counts each request for the length of the window: no span of that length exceeds the limit. */
function slidingWindow(limit: number, lengthMs: number): Window {
  /** Times of the requests in the window. */
  const times: number[] = [];
  const remaining = (nowMs: number) => {
    while ((times[0] ?? nowMs) <= nowMs - lengthMs) times.shift();
    return limit - times.length;
  };
  return {
    remaining,
    count: (nowMs) => void times.push(nowMs),
    freeAt: (nowMs) => (remaining(nowMs) > 0 ? nowMs : (times[0] ?? nowMs) + lengthMs),
    fullAt: (nowMs) => Math.max(nowMs, (times.at(-1) ?? Number.NEGATIVE_INFINITY) + lengthMs),
  };
}

/** Takes one token for each request; tokens flow in at an even rate. */
function tokenBucket(limit: number, msPerToken: number): Window {
  let tokens = limit;
  let atMs = Number.NEGATIVE_INFINITY;
  const remaining = (nowMs: number) => {
    tokens = Math.min(limit, tokens + (nowMs - atMs) / msPerToken);
    atMs = nowMs;
    // Refilled tokens are sums of fractions: rounding can leave a whole token slightly below 1.
    return Math.floor(tokens + 1e-9);
  };
  return {
    remaining,
    count: () => void (tokens -= 1),
    freeAt: (nowMs) => (remaining(nowMs) > 0 ? nowMs : nowMs + (1 - tokens) * msPerToken),
    fullAt: (nowMs) => nowMs + (limit - tokens) * msPerToken,
  };
}
