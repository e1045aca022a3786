/**
 * How fast to spend the rest of the hour. Pure: `bench/simulate.ts` runs this code in virtual time;
 * docs/adr/0026 has the reasons.
 *
 * Bursts are right while the hour has more requests than the flow of changes will need: without a flow, or
 * with one that fits. Otherwise requests have turns at an even pace. A record may take its turn early, by a
 * part of its lead (rank.ts). So rare changes go at once and hot ones wait, and the more turns have been
 * taken early, the larger a lead must be: the price of a request follows from what was spent, and nothing has
 * to forecast it.
 */
import { SLICES_KEPT, sliceMs } from "../sync/rank.ts";
import type { Lane } from "../event/lane.ts";

/** The forecast divides the hour into this many equal parts. */
export const HOUR_PARTS = 15;

/** What pacing is decided from. All of it is shared, so every process decides alike. */
export interface PacingView {
  readonly limit: number;
  /** Slots of the hour that are free now. */
  readonly remaining: number;
  /** Slots that return in each of the next HOUR_PARTS parts of the hour. */
  readonly returns: readonly number[];
  /** Changes in each of the last SLICES_KEPT whole slices of the hour, newest first. */
  readonly demand: readonly number[];
  /** Changes in the current slice, and the part of it that has passed, 0 to 1. */
  readonly current: { readonly changed: number; readonly passed: number };
  /** Live records that wait for a request. */
  readonly waiting: number;
  readonly hourMs: number;
  /** Slots of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

/** When the next permit may be given; undefined: not before more slots return. */
export type Pace =
  | {
      /** Time from one turn to the next, ms. 0: at once. */
      readonly intervalMs: number;
      /** The turn may be taken early by this part of the lead of the record served next. */
      readonly early: number;
    }
  | undefined;

const AT_ONCE = { intervalMs: 0, early: 0 };

/**
 * While fewer records wait than this part of the limit, pacing leaves the spare part unspent, less
 * what returns within the first part of the hour: a slightly longer wait costs little then, and the
 * changes that coalesce meanwhile save requests. Where slots return all the time, these take the place of the
 * spare part: kept for hours, it would take that part off each of them.
 */
const FEW_WAITING = 0.1;
const SPARE = 0.03;

/** A turn may be taken early by this part of the lead. */
const EARLY = 3 / 4;

/**
 * The pace of live requests is planned for the time until the end of this part of the hour, and of each
 * later one. Earlier parts seldom limit it; to wait for their slots costs more than a short lack of slots.
 */
const PLANNED_FROM = 4;

export function paceOf(view: PacingView, lane: Lane): Pace {
  const isLive = lane === "live";
  const free = view.remaining - (isLive ? 0 : view.liveReserve);
  if (free < 1) return isLive ? AT_ONCE : undefined;
  const flow = flowOf(view);
  if (isLive && flow === 0) return AT_ONCE;
  if (surplusOf(view, free - (isLive ? SPARE * view.limit : 0), flow) >= 1) return AT_ONCE;
  const rate = evenRate(view, free, isLive ? PLANNED_FROM : 1);
  return { intervalMs: 1 / rate, early: isLive ? EARLY : 0 };
}

/**
 * When the next turn may be taken, if no larger lead comes meanwhile: leads grow with time.
 * @param turn when the last one was due @param lowestRank of the records that wait
 */
export function turnAt(
  { intervalMs, early }: NonNullable<Pace>,
  turn: number,
  lowestRank: number | undefined,
): number {
  const due = turn + intervalMs;
  if (early === 0 || lowestRank === undefined) return due;
  return Math.min(due, (due + early * lowestRank) / (1 + early));
}

/** The slots that the flow leaves over until more return. */
function surplusOf(view: PacingView, free: number, flow: number): number {
  return Math.min(
    ...availableIn(view, free).map((available, part) => available - flow * partEnd(view, part)),
  );
}

/** The requests per ms that the slots last for, over every stretch that ends in these parts. */
function evenRate(view: PacingView, free: number, fromPart: number): number {
  const unreturned = Math.max(0, SPARE * view.limit - (view.returns[0] ?? 0));
  const spare = view.waiting < FEW_WAITING * view.limit ? Math.min(unreturned, free - 1) : 0;
  const rates = availableIn(view, free).map(
    (available, part) => (available - spare) / partEnd(view, part),
  );
  return Math.min(...rates.slice(fromPart - 1));
}

/** Slots that are free until the end of each part. */
function availableIn({ returns }: PacingView, free: number): number[] {
  let available = free;
  return Array.from({ length: HOUR_PARTS }, (_, part) => (available += returns[part] ?? 0));
}

const partEnd = ({ hourMs }: PacingView, part: number): number =>
  ((part + 1) * hourMs) / HOUR_PARTS;

/**
 * This many slices in a row with changes make a flow. A storm of seconds may lie in two slices: it counts as
 * a flow until half of the next slice is over, but the leads of its new records let them go at once.
 */
const FLOW_FROM = 2;

/** A flow is at most this many times its weakest recent slice. */
const RISE = 4;

/**
 * The flow of changes per ms: the median of the newest slices without a gap. A storm, however
 * large, leaves the slices after it empty. The end of a flow shows in the current slice, even before
 * that slice is over.
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

/**
 * Time until so many requests will have been sent, the last one of this lane, ms. What is sent now, and
 * in each part of the hour, can be sent again an hour later.
 */
function sentInMs(count: number, view: PacingView, lane: Lane): number {
  const reserve = lane === "bulk" ? view.liveReserve : 0;
  const atOnce = Math.max(0, view.remaining - reserve);
  let missing = Math.max(0, reserve - view.remaining);
  const parts = Array.from({ length: HOUR_PARTS }, (_, part) => {
    const back = view.returns[part] ?? 0;
    const usable = Math.max(0, back - missing);
    missing = Math.max(0, missing - back);
    return usable;
  });
  const perHour = parts.reduce((sum, usable) => sum + usable, atOnce);
  if (perHour === 0) return view.hourMs * (1 + count / Math.max(1, view.limit - reserve));
  const hours = Math.floor((count - 1) / perHour);
  let left = count - hours * perHour;
  const fullHours = hours * view.hourMs;
  if (left <= atOnce) return fullHours + (left - 1) * (paceOf(view, lane)?.intervalMs ?? 0);
  left -= atOnce;
  const partMs = view.hourMs / HOUR_PARTS;
  for (const [part, usable] of parts.entries()) {
    if (usable >= left) return fullHours + (part + left / usable) * partMs;
    left -= usable;
  }
  return fullHours + view.hourMs;
}
