/**
 * How fast to spend the rest of the hour. Pure: `src/simulate/` runs this code in virtual time;
 * docs/adr/0003 lists the alternatives.
 *
 * Bursts are right while the hour has more requests than the flow of changes will need. Without
 * that surplus, each early request only brings the moment nearer when nothing can be sent for half
 * an hour, while changes that wait a minute coalesce. So: set aside what the flow needs until spent
 * slots return; spend the surplus at once; without a surplus, spread the rest evenly.
 */
import { SLICES_KEPT, sliceMs } from "./slices.ts";
import type { Lane } from "../sync/lane.ts";

/** The forecast divides the hour into this many equal parts. */
export const HOUR_PARTS = 30;

/** What pacing is decided from. All of it is shared, so every process decides alike. */
export interface PacingView {
  readonly limit: number;
  /** Slots of the hour that are free now. */
  readonly remaining: number;
  /** Slots that return in each of the next HOUR_PARTS parts of the hour. */
  readonly returns: readonly number[];
  /** Records changed in each of the last SLICES_KEPT whole slices of the hour, newest first. */
  readonly demand: readonly number[];
  /** Records changed in the current slice, and the part of it that has passed, 0 to 1. */
  readonly current: { readonly changed: number; readonly passed: number };
  /** Live records that wait for a request. */
  readonly waiting: number;
  readonly hourMs: number;
  /** Slots of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

/** Least time between two permits, ms. 0: at once; undefined: not before more slots return. */
export type Pace = number | undefined;

/**
 * While fewer records wait than this part of the limit, spreading leaves the spare part unspent: a
 * slightly longer wait costs little then, and the changes that coalesce meanwhile save requests.
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

/** Slices in a row with changes that make a flow. */
const FLOW_FROM = 3;

/** A flow is at most this many times its weakest recent slice. */
const RISE = 4;

/**
 * The flow of changes, in records per ms: the median of the newest slices without a gap. A storm,
 * however large, leaves the slices around it empty. The end of a flow shows in the current slice,
 * even before that slice is over.
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

/** Limits that a forecast needs beside the view. */
export interface ForecastLimits {
  readonly burst: number;
  readonly burstMs: number;
}

/** How many requests wait in each lane. */
export type Waiting = Readonly<Record<Lane, number>>;

/**
 * Time until `waiting` requests will have been sent if no more come, ms: live ones first.
 * @param steady whether requests follow each other at the hour's even rate only.
 */
export function drainsInMs(
  { live, bulk }: Waiting,
  view: PacingView,
  limits: ForecastLimits,
  steady = false,
): number {
  const all = live + bulk;
  if (all <= 0) return 0;
  const burstTime = steady
    ? ((all - 1) * view.hourMs) / view.limit
    : Math.max(0, Math.ceil(all / limits.burst) - 1) * limits.burstMs;
  const liveTime = live > 0 ? sentInMs(live, view, "live") : 0;
  const bulkTime = bulk > 0 ? sentInMs(all, view, "bulk") : 0;
  return Math.max(burstTime, liveTime, bulkTime);
}

/** Time until so many requests will have been sent, the last one of this lane, ms. */
function sentInMs(count: number, view: PacingView, lane: Lane): number {
  const reserve = lane === "bulk" ? view.liveReserve : 0;
  let left = count + reserve - Math.max(0, view.remaining);
  if (left <= 0) return (count - 1) * (paceOf(view, lane) ?? 0);
  const partMs = view.hourMs / HOUR_PARTS;
  for (let part = 0; part < HOUR_PARTS; part += 1) {
    const back = view.returns[part] ?? 0;
    if (back >= left) return (part + left / back) * partMs;
    left -= back;
  }
  // Beyond one hour every slot returns once per hour.
  return view.hourMs * (1 + left / Math.max(1, view.limit - reserve));
}
