/** What operators see of the quota. */
import type { QuotaSnapshot, Mode } from "./pacer.ts";
import { drainsInMs, type ForecastLimits } from "./pacing.ts";

/** The quota as it stands, the same in every process. Times in ms since the epoch. */
export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  /** When the next spent request of the hour returns; now when none is spent. */
  readonly resetAt: number;
  /** When all of them will have returned. */
  readonly wholeAt: number;
  readonly stopped: "throttled" | undefined;
  /** Until when nobody sends; undefined when not stopped. */
  readonly until: number | undefined;
  readonly pacing: Mode;
  /** When `waiting` requests will have been sent, if nothing else comes. */
  drainedAt(waiting: number): number;
}

export function stateOf(look: QuotaSnapshot, limits: ForecastLimits): QuotaState {
  const { now, limit, remaining, stopUntil } = look;
  const stopped = isStopped(look);
  const startsAt = Math.max(now, stopUntil);
  return {
    limit,
    remaining,
    resetAt: look.nextReturnAt,
    wholeAt: look.wholeAt,
    pacing: look.mode,
    stopped: stopped ? "throttled" : undefined,
    until: stopped ? stopUntil : undefined,
    drainedAt: (waiting) => startsAt + drainsInMs(waiting, look, limits, look.mode === "steady"),
  };
}

export function isStopped(look: QuotaSnapshot): boolean {
  return look.stopUntil > look.now;
}
