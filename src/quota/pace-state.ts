/**
 * The state of pacing that all processes share, and how it changes: turns, stops after a 429, and
 * whether requests go in bursts. Pure: each function takes the state that was read and returns the new one,
 * which is written only if no other process has changed it since it was read (lua/take.lua).
 * Times in ms, by Redis' clock.
 */
import { backoffMs, spread } from "../event/backoff.ts";
import { turnAt, type Pace } from "./pacing.ts";

/** What QUOTA_PACING allows: see docs/adr/0002. */
export type PacingSetting = "auto" | "burst" | "steady";

/** How requests follow each other now: in bursts, or only at the hour's even rate. */
export type Pacing = "burst" | "steady";

export interface PaceState {
  /** Until when no process sends, after a 429. */
  readonly stop: number;
  /** Stops by a 429 since the last other reply. */
  readonly failures: number;
  /** When the last turn of even spreading was due: in the future, if taken early. */
  readonly turn: number;
  /** When the steady bucket is full again (the "theoretical arrival time" of GCRA). */
  readonly tat: number;
  /** Until when pacing is steady. */
  readonly steady: number;
  /** When the last request ended without a reply. */
  readonly unanswered: number;
  /** Until when the one request after a 429 counts as in flight. */
  readonly alone: number;
}

export interface PaceRules {
  readonly setting: PacingSetting;
  readonly burst: number;
  /** Time in which the hour's rate gains one token. */
  readonly steadyMs: number;
  /** For so long an unexplained 429 makes pacing steady. */
  readonly dayMs: number;
}

/** A day is as long as this many hours of the quota. */
const DAY_HOURS = 24;

export const paceRules = (given: {
  readonly pacing: PacingSetting;
  readonly burst: number;
  readonly perHour: number;
  readonly hourMs: number;
}): PaceRules => ({
  setting: given.pacing,
  burst: given.burst,
  steadyMs: given.hourMs / given.perHour,
  dayMs: DAY_HOURS * given.hourMs,
});

const NEW = { stop: 0, failures: 0, turn: 0, tat: 0, steady: 0, unanswered: 0, alone: 0 };

export const parsePaceState = (text: string): PaceState =>
  text === "" ? NEW : (JSON.parse(text) as PaceState);

export const pacingOf = ({ steady }: PaceState, now: number, setting: PacingSetting): Pacing =>
  setting === "steady" || (setting === "auto" && steady > now) ? "steady" : "burst";

/** Turns at once from the steady bucket. The other half of it covers delays on the way. */
const depthOf = ({ burst }: PaceRules): number => Math.max(1, Math.floor(burst / 2));

/** The one request after a 429 counts as in flight for at most this long, ms. */
const IN_FLIGHT_MAX_MS = 35_000;

/** Pause before the next look whether it is answered, ms. */
const LOOK_MS = 20;

/** Takes the turn of one permit. @returns the new state, or how long to wait, ms. */
export function claimTurn(
  state: PaceState,
  now: number,
  { pace, lowestRank }: { pace: NonNullable<Pace>; lowestRank: number | undefined },
  rules: PaceRules,
): PaceState | number {
  if (state.stop > now) return state.stop - now;
  const { intervalMs } = pace;
  const due = intervalMs > 0 ? turnAt(pace, state.turn, lowestRank) : now;
  if (due > now) return due - now;
  // After a 429 one request goes alone: it finds out whether the stop was long enough.
  if (state.alone > now) return LOOK_MS;
  const alone = state.failures > 0 ? now + IN_FLIGHT_MAX_MS : state.alone;
  // After a late turn the next one may be early; otherwise every delay would be lost for good.
  const turn = Math.max(state.turn + intervalMs, now - intervalMs);
  const taken = { ...state, alone, turn };
  if (pacingOf(state, now, rules.setting) === "burst") return taken;
  const tat = Math.max(state.tat, now) + rules.steadyMs;
  const early = tat - now - depthOf(rules) * rules.steadyMs;
  return early > 0 ? early : { ...taken, tat };
}

/** Returns a turn that was not used. */
export const returnTurn = (
  state: PaceState,
  { intervalMs, pacing }: { readonly intervalMs: number; readonly pacing: Pacing },
  rules: PaceRules,
): PaceState => ({
  ...state,
  alone: 0,
  turn: state.turn - intervalMs,
  tat: pacing === "steady" ? state.tat - rules.steadyMs : state.tat,
});

/** A reply that is no 429 ends the time in which requests go alone. */
export const learnReply = (state: PaceState): PaceState => ({ ...state, alone: 0, failures: 0 });

/** Notes that a request got no reply: the service may count it later than our own log does. */
export const missReply = (state: PaceState, now: number): PaceState => ({
  ...state,
  unanswered: now,
});

/** The wait after a 429 that asks for none: it doubles with each failure, and half of it is random, ms. */
const BACKOFF = { firstMs: 1000, longestMs: 300_000 };

/** This many 429s in a row are believed to ask for the right wait. */
const BELIEVED_STOPS = 3;

/** A service that stood still may count a request of its queue this long after the request's end, ms. */
const COUNTED_LATE_MS = 300_000;

export interface Throttling {
  /** What the headers ask for, ms; undefined when they say nothing usable. */
  readonly askedMs: number | undefined;
  /** Our own count did not foresee this 429. */
  readonly unexplained: boolean;
  /** 0 to 1. */
  readonly random: number;
}

/** Stops all processes after a 429. A stop is only ever extended. */
export function throttle(
  state: PaceState,
  now: number,
  { askedMs, unexplained, random }: Throttling,
  rules: PaceRules,
): PaceState {
  const failures = state.failures + (state.stop > now ? 0 : 1);
  const own = spread(backoffMs(failures, BACKOFF), random);
  const believed = askedMs !== undefined && failures <= BELIEVED_STOPS;
  const wait = believed ? askedMs : Math.max(askedMs ?? 0, own);
  const stop = Math.max(state.stop, Math.ceil(now + wait));
  const stopped = { ...state, alone: 0, failures, stop };
  const countsLate = now - state.unanswered < COUNTED_LATE_MS;
  if (rules.setting !== "auto" || !unexplained || countsLate) return stopped;
  const tat = now + depthOf(rules) * rules.steadyMs;
  return { ...stopped, steady: now + rules.dayMs, tat };
}
