/**
 * How fast to spend what is left of the hour. Pure: `bench/pacing.ts` runs this very code in
 * virtual time, and docs/adr/0003 tells what it was chosen over.
 *
 * Bursting is right while the hour holds more than the changes that keep coming will need; once
 * it does not, every request sent early only brings forward the moment at which nothing may be
 * sent for half an hour, while changes that wait a minute coalesce. So: what the steady flow of
 * changes needs until spent slots return is set aside; the surplus is spent at once; without a
 * surplus, what remains is spread evenly.
 */
import { SLICES_KEPT, sliceMs } from "./slices.ts";
import type { Lane } from "../sync/lane.ts";

/** The hour is looked at in this many equal parts. */
export const HOUR_PARTS = 30;

/** What pacing looks at; all of it shared, so that every process decides alike. */
export interface PacingView {
  readonly limit: number;
  /** Slots of the hour that are free now. */
  readonly remaining: number;
  /** Slots that return in each of the next PARTS parts of the hour. */
  readonly returns: readonly number[];
  /** Records changed in each of the last SLICES_KEPT whole slices of the hour, newest first. */
  readonly demand: readonly number[];
  /** Records changed in the slice that is not over yet, and how much of it has passed, 0 to 1. */
  readonly current: { readonly changed: number; readonly passed: number };
  /** Live records that wait for a request. */
  readonly waiting: number;
  readonly hourMs: number;
  /** Slots of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

/** Least time between two permits, ms: 0 at once, undefined not before more slots return. */
export type Pace = number | undefined;

/**
 * While fewer records wait than this part of the limit, spreading leaves the spare part unspent:
 * waiting a little longer costs little then, and saves the requests of those that coalesce.
 */
const FEW_WAITING = 0.1;
const SPARE = 0.03;

export function paceOf(view: PacingView, lane: Lane): Pace {
  const free = view.remaining - (lane === "bulk" ? view.liveReserve : 0);
  if (free < 1) return lane === "bulk" ? undefined : 0;
  const partMs = view.hourMs / HOUR_PARTS;
  const flow = flowOf(view);
  const spare =
    view.waiting < FEW_WAITING * view.limit ? Math.min(SPARE * view.limit, free - 1) : 0;
  let surplus = free;
  let rate = Number.POSITIVE_INFINITY;
  let available = free;
  for (let part = 1; part <= HOUR_PARTS; part += 1) {
    available += view.returns[part - 1] ?? 0;
    surplus = Math.min(surplus, available - flow * part * partMs);
    rate = Math.min(rate, (available - spare) / (part * partMs));
  }
  return surplus >= 1 ? 0 : 1 / rate;
}

/** Slices in a row that must see changes before these count as a flow. */
const FLOW_FROM = 3;

/** How far above its weakest recent slice a flow is believed to be. */
const RISE = 4;

/**
 * Records per ms that keep coming: the median of the slices since changes have come without a
 * gap. A storm, however large, leaves the slices round it empty; and a flow that has ended shows
 * in its newest slice, even before that one is over.
 */
export function flowOf(view: Pick<PacingView, "demand" | "current" | "hourMs">): number {
  const { current } = view;
  const gap = view.demand.indexOf(0);
  const run = view.demand.slice(0, gap === -1 ? SLICES_KEPT : gap);
  if (run.length < FLOW_FROM) return 0;
  const weakest = Math.min(
    ...run.slice(0, FLOW_FROM),
    current.passed > 0.5 ? (current.changed + 1) / current.passed : Number.POSITIVE_INFINITY,
  );
  const median = run.toSorted((a, b) => a - b)[Math.floor((run.length - 1) / 2)] ?? 0;
  return Math.min(median, RISE * weakest) / sliceMs(view.hourMs);
}

/** What a forecast needs beyond the view. */
export interface ForecastLimits {
  readonly burst: number;
  readonly burstMs: number;
}

/**
 * Time until `waiting` requests have been sent if nothing else comes, ms.
 * @param steady whether they may only follow each other at the hour's even rate.
 */
export function drainsInMs(
  waiting: number,
  view: PacingView,
  limits: ForecastLimits,
  steady = false,
): number {
  if (waiting <= 0) return 0;
  const burstTime = steady
    ? ((waiting - 1) * view.hourMs) / view.limit
    : Math.max(0, Math.ceil(waiting / limits.burst) - 1) * limits.burstMs;
  const pace = paceOf(view, "live") ?? 0;
  let left = waiting - Math.max(0, view.remaining);
  if (left <= 0) return Math.max(burstTime, (waiting - 1) * pace);
  const partMs = view.hourMs / HOUR_PARTS;
  for (let part = 0; part < HOUR_PARTS; part += 1) {
    const back = view.returns[part] ?? 0;
    if (back >= left) return Math.max(burstTime, (part + left / back) * partMs);
    left -= back;
  }
  // Beyond one hour every slot returns once per hour.
  return Math.max(burstTime, view.hourMs * (1 + left / view.limit));
}
