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
import { flowOf } from "../sync/rank.ts";
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
  /** Live changes in each of the last SLICES_KEPT whole slices of the hour, newest first. */
  readonly demand: readonly number[];
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
const EARLY = 3 / 4;

/**
 * While fewer records wait than this part of the limit, this spare part of it stays unspent, less what returns
 * soon: a slightly longer wait costs little then, and the changes that coalesce meanwhile save requests.
 */
const FEW_WAITING = 0.1;
const SPARE = 0.03;

export function paceOf(view: PacingView, lane: Lane): Pace {
  const { hourMs, limit, remaining, returns, waiting } = view;
  const isLive = lane === "live";
  const free = remaining - (isLive ? 0 : view.liveReserve);
  if (free < 1) return isLive ? AT_ONCE : undefined;
  const flow = flowOf(view.demand, hourMs);
  if (isLive && flow === 0) return AT_ONCE;
  const keeps = isLive && waiting < FEW_WAITING * limit;
  const spare = keeps ? Math.max(0, SPARE * limit - (returns[0] ?? 0)) : 0;
  let available = free - Math.min(spare, free - 1);
  // What the slots last for until the end of each part of the hour, in requests per ms.
  const rates = returns.map(
    (back, part) => ((available += back) * HOUR_PARTS) / ((part + 1) * hourMs),
  );
  const rate = Math.min(...rates);
  return rate > flow ? AT_ONCE : { intervalMs: 1 / rate, early: isLive ? EARLY : 0 };
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
  { burst, burstMs }: ForecastLimits,
  steady = false,
): number {
  const all = live + bulk;
  if (all <= 0) return 0;
  const paced = steady
    ? ((all - 1) * view.hourMs) / view.limit
    : Math.max(0, Math.ceil(all / burst) - 1) * burstMs;
  return Math.max(
    paced,
    live > 0 ? sentInMs(live, view, "live") : 0,
    bulk > 0 ? sentInMs(all, view, "bulk") : 0,
  );
}

/**
 * Time until so many requests will have been sent, the last one of this lane, ms. What is sent now, and
 * in each part of the hour, can be sent again an hour later.
 */
function sentInMs(count: number, view: PacingView, lane: Lane): number {
  const { hourMs, limit, liveReserve } = view;
  const reserve = lane === "bulk" ? liveReserve : 0;
  let missing = reserve;
  const usable = [view.remaining, ...view.returns].map((slots) => {
    const kept = Math.min(slots, missing);
    missing -= kept;
    return slots - kept;
  });
  const perHour = usable.reduce((sum, slots) => sum + slots, 0);
  if (perHour === 0) return hourMs * (1 + count / Math.max(1, limit - reserve));
  const hours = Math.floor((count - 1) / perHour);
  let left = count - hours * perHour;
  for (const [part, slots] of usable.entries()) {
    if (slots < left) {
      left -= slots;
      continue;
    }
    const atOnce = (left - 1) * (paceOf(view, lane)?.intervalMs ?? 0);
    const inPart = (part - 1 + left / slots) * (hourMs / HOUR_PARTS);
    return hours * hourMs + (part === 0 ? atOnce : inPart);
  }
  return (hours + 1) * hourMs;
}
