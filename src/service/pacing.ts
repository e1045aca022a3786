/**
 * How fast to spend what is left of the hour. Pure: `bench/pacing.ts` runs this very code in
 * virtual time, docs/adr/0003 tells what it was chosen over.
 *
 * Bursting is right while the hour holds more than the changes that keep coming will need; once
 * it does not, every request sent early only brings forward the moment at which nothing may be
 * sent for half an hour, while changes that wait a minute coalesce. So: what the steady flow of
 * changes needs until spent slots return is set aside; the surplus is spent at once; without a
 * surplus, what remains is spread evenly.
 */
import type { Lane } from "../spec/lane.ts";

/** The hour is looked at in this many equal parts. */
export const PARTS = 30;

/** Demand is counted in slices of this part of the hour, and judged by the newest whole ones. */
export const SLICES_PER_HOUR = 60;
export const SLICES_JUDGED = 4;

/** What pacing looks at; all of it shared, so that every process decides alike. */
export interface PacingView {
  /** Slots of the hour that are free now. */
  readonly remaining: number;
  /** Slots that return in each of the next PARTS parts of the hour. */
  readonly returns: readonly number[];
  /** Records changed in each of the newest whole slices, in any order. */
  readonly demand: readonly number[];
  readonly hourMs: number;
  /** Slots of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

/** Least time between two permits, ms: 0 at once, undefined not before more slots return. */
export type Pace = number | undefined;

export function paceOf(view: PacingView, lane: Lane): Pace {
  const free = view.remaining - (lane === "bulk" ? view.liveReserve : 0);
  if (free < 1) return lane === "bulk" ? undefined : 0;
  const partMs = view.hourMs / PARTS;
  const flow = flowOf(view);
  let surplus = free;
  let rate = Number.POSITIVE_INFINITY;
  let available = free;
  for (let part = 1; part <= PARTS; part += 1) {
    available += view.returns[part - 1] ?? 0;
    surplus = Math.min(surplus, available - flow * part * partMs);
    rate = Math.min(rate, available / (part * partMs));
  }
  return surplus >= 1 ? 0 : 1 / rate;
}

/**
 * Records per ms that keep coming. The least of several slices: a storm, however large, leaves
 * the slices round it empty, and only what lasts through all of them is a flow.
 */
export function flowOf(view: Pick<PacingView, "demand" | "hourMs">): number {
  if (view.demand.length < SLICES_JUDGED) return 0;
  return Math.min(...view.demand) / (view.hourMs / SLICES_PER_HOUR);
}

/** What a forecast needs beyond the view. */
export interface ForecastLimits {
  readonly limit: number;
  readonly burst: number;
  readonly burstMs: number;
}

/** Time until `waiting` requests have been sent if nothing else comes, ms. */
export function drainsInMs(waiting: number, view: PacingView, limits: ForecastLimits): number {
  if (waiting <= 0) return 0;
  const burstTime = Math.max(0, Math.ceil(waiting / limits.burst) - 1) * limits.burstMs;
  const pace = paceOf(view, "live") ?? 0;
  let left = waiting - Math.max(0, view.remaining);
  if (left <= 0) return Math.max(burstTime, (waiting - 1) * pace);
  const partMs = view.hourMs / PARTS;
  for (let part = 0; part < PARTS; part += 1) {
    const back = view.returns[part] ?? 0;
    if (back >= left) return Math.max(burstTime, (part + left / back) * partMs);
    left -= back;
  }
  // Beyond one hour every slot returns once per hour.
  return Math.max(burstTime, view.hourMs * (1 + left / limits.limit));
}
