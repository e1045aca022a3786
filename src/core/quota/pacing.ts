/**
 * When the next request may start, and what a reply changes in that. Pure, from what all processes share, so every
 * process decides alike, and `bench/simulate.ts` runs this code in virtual time. Times in ms, by Redis' clock.
 *
 * Bursts are right while the hour has more requests than the flow of changes will need. Otherwise requests have
 * turns at an even pace, and a record may take its turn early, by a part of its lead (rank.ts). So rare changes
 * go at once, hot ones wait, and each turn that is taken early raises the price of the next: docs/adr/0026.
 */
import { backoffMs, spread } from "../event/backoff.ts";
import type { Lane } from "../event/lane.ts";
import { flowOf } from "../sync/rank.ts";

/** What QUOTA_PACING allows: see docs/adr/0002. */
export type PacingSetting = "auto" | "burst" | "steady";

/** How requests follow each other now: in bursts, or only at the hour's even rate. */
export type Pacing = Exclude<PacingSetting, "auto">;

/** What is remembered from one request to the next. */
export interface PaceState {
  /** Until when no process sends, after a 429. */
  readonly stop: number;
  /** Stops by a 429 since the last other reply. */
  readonly failures: number;
  /** Until when the one request after a 429 counts as in flight. */
  readonly alone: number;
  /** When the last turn of even spreading was due: in the future, if taken early. */
  readonly turn: number;
  /** When the steady bucket is full again (the "theoretical arrival time" of GCRA). */
  readonly tat: number;
  /** Until when pacing is steady. */
  readonly steady: number;
  /** When the last request ended without a reply. */
  readonly unanswered: number;
}

export const NEW = { stop: 0, failures: 0, alone: 0, turn: 0, tat: 0, steady: 0, unanswered: 0 };

export interface PaceRules {
  readonly pacing: PacingSetting;
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
}

/** The forecast divides the hour into this many equal parts. */
export const HOUR_PARTS = 15;

/** What the pace is decided from. */
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

/**
 * The time from one turn to the next, ms (0: at once), and by what part of the lead of the record served next a
 * turn may be taken early; undefined: no turn before more slots return.
 */
export type Pace = { readonly intervalMs: number; readonly early: number } | undefined;

const AT_ONCE = { intervalMs: 0, early: 0 };
const EARLY = 3 / 4;

/**
 * While fewer records wait than this part of the limit, this spare part of it stays unspent, less what returns
 * soon: a slightly longer wait costs little then, and the changes that coalesce meanwhile save requests.
 */
const FEW_WAITING = 0.1;
const SPARE = 0.03;

/** How fast to spend the rest of the hour. */
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

/** `lowestRank`: of the live record that is served next; undefined when none waits. */
type TurnView = { now: number; state: PaceState; lowestRank?: number | undefined };

/** The one request after a 429 counts as in flight for at most this long, ms. */
const IN_FLIGHT_MAX_MS = 35_000;

/** Pause before the next look whether it is answered, ms. */
const LOOK_MS = 20;

/** Takes the turn of one permit. @returns the new state, or how long to wait before the next try, ms. */
export function takeTurn(
  { now, state, lowestRank }: TurnView,
  { intervalMs, early }: NonNullable<Pace>,
  rules: PaceRules,
): PaceState | number {
  if (state.stop > now) return state.stop - now;
  let due = intervalMs > 0 ? state.turn + intervalMs : now;
  // Leads grow with time: when it is there if no larger one comes meanwhile.
  if (early > 0 && lowestRank !== undefined) {
    due = Math.min(due, (due + early * lowestRank) / (1 + early));
  }
  if (due > now) return due - now;
  // After a 429 one request goes alone: it finds out whether the stop was long enough.
  if (state.alone > now) return LOOK_MS;
  const alone = state.failures > 0 ? now + IN_FLIGHT_MAX_MS : state.alone;
  // After a late turn the next one may be early; otherwise every delay would be lost for good.
  const turn = Math.max(state.turn + intervalMs, now - intervalMs);
  const taken = { ...state, alone, turn };
  if (pacingOf(state, now, rules.pacing) === "burst") return taken;
  const tat = Math.max(state.tat, now) + stepOf(rules);
  const earlyMs = tat - now - depthMs(rules);
  return earlyMs > 0 ? earlyMs : { ...taken, tat };
}

export const pacingOf = ({ steady }: PaceState, now: number, setting: PacingSetting): Pacing =>
  setting === "steady" || (setting === "auto" && steady > now) ? "steady" : "burst";

/** Time in which the hour's rate gains one token, and half a bucket of them: the other half covers delays on the way. */
const stepOf = ({ hourMs, perHour }: PaceRules): number => hourMs / perHour;
const depthMs = (rules: PaceRules) => Math.max(1, Math.floor(rules.burst / 2)) * stepOf(rules);

/** Returns a turn that was not used. */
export function returnTurn(
  state: PaceState,
  taken: { turnMs: number; pacing: Pacing },
  rules: PaceRules,
) {
  const tat = taken.pacing === "steady" ? state.tat - stepOf(rules) : state.tat;
  return { ...state, alone: 0, turn: state.turn - taken.turnMs, tat };
}

/** The wait after a 429 that asks for none: it doubles with each failure, and half of it is random, ms. */
const BACKOFF = { firstMs: 1000, longestMs: 300_000 };

/** This many 429s in a row are believed to ask for the right wait. */
const BELIEVED_STOPS = 3;

/** A service that stood still may count a request of its queue this long after the request's end, ms. */
const COUNTED_LATE_MS = 300_000;

/** For so many hours of the quota an unexplained 429 makes pacing steady. */
const DAY_HOURS = 24;

/**
 * None, one that is no 429, or a 429: the wait that it asks for, ms (undefined when it says nothing usable), whether our
 * own count did not foresee it, and a number from 0 to 1.
 */
export type Reply =
  | "none"
  | "answered"
  | { askedMs: number | undefined; unexplained: boolean; random: number };

/** What a reply changes. A stop is only ever extended. */
export function learn(state: PaceState, now: number, reply: Reply, rules: PaceRules): PaceState {
  if (reply === "answered") return { ...state, alone: 0, failures: 0 };
  if (reply === "none") return { ...state, unanswered: now };
  const { askedMs, random, unexplained } = reply;
  const failures = state.failures + (state.stop > now ? 0 : 1);
  const own = spread(backoffMs(failures, BACKOFF), random);
  const believed = askedMs !== undefined && failures <= BELIEVED_STOPS;
  const wait = believed ? askedMs : Math.max(askedMs ?? 0, own);
  const stop = Math.max(state.stop, Math.ceil(now + wait));
  const stopped = { ...state, alone: 0, failures, stop };
  const countsLate = now - state.unanswered < COUNTED_LATE_MS;
  if (rules.pacing !== "auto" || !unexplained || countsLate) return stopped;
  return { ...stopped, steady: now + DAY_HOURS * rules.hourMs, tat: now + depthMs(rules) };
}

/** How many requests wait in each lane. */
export type Waiting = Readonly<Record<Lane, number>>;

/** Time until `waiting` requests will have been sent if no more come, ms: live ones first. */
export function drainsInMs(
  { live, bulk }: Waiting,
  view: PacingView,
  { burst, burstMs }: { burst: number; burstMs: number },
  steady = false,
): number {
  const all = live + bulk;
  const paced = steady
    ? ((all - 1) * view.hourMs) / view.limit
    : (Math.ceil(all / burst) - 1) * burstMs;
  return Math.max(
    0,
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
  const part = usable.findIndex((slots) => slots >= left || (left -= slots) < 0);
  const slots = usable[part] ?? 1;
  const inHour =
    part === 0
      ? (left - 1) * (paceOf(view, lane)?.intervalMs ?? 0)
      : (part - 1 + left / slots) * (hourMs / HOUR_PARTS);
  return hours * hourMs + inHour;
}
