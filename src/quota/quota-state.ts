/** The quota as operators see it. */
import { drainsInMs, type ForecastLimits, type Waiting } from "./pacing.ts";
import type { Pacing } from "./pace-state.ts";
import type { QuotaSnapshot } from "./snapshot.ts";

/** The same in every process. Times in ms since the epoch. */
export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  /** When the next spent request of the hour returns; now when none is spent. */
  readonly resetAt: number;
  /** When all spent requests of the hour will have returned. */
  readonly allReturnedAt: number;
  /** Requests of the hour that return in each part of the next one: so many were spent in that part of the last one. */
  readonly returns: readonly number[];
  readonly stopped: "throttled" | undefined;
  /** Until when no process sends; undefined when not stopped. */
  readonly until: number | undefined;
  readonly pacing: Pacing;
  /** Whether a request was ever sent: before that, what the service has counted is not known. */
  readonly hasSent: boolean;
  /** When `waiting` requests will have been sent, if no more come. */
  drainedAt(waiting: Waiting): number;
}

export function stateOf(snapshot: QuotaSnapshot, limits: ForecastLimits): QuotaState {
  const { now, limit, remaining, pacing } = snapshot;
  const stopUntil = snapshot.state.stop;
  const stopped = stopUntil > now;
  const startsAt = Math.max(now, stopUntil);
  return {
    limit,
    remaining,
    resetAt: snapshot.nextReturnAt,
    allReturnedAt: snapshot.allReturnedAt,
    pacing,
    hasSent: snapshot.taken > 0,
    returns: snapshot.returns,
    stopped: stopped ? "throttled" : undefined,
    until: stopped ? stopUntil : undefined,
    drainedAt: (waiting) => startsAt + drainsInMs(waiting, snapshot, limits, pacing === "steady"),
  };
}
