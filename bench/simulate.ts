/**
 * Simulates the quota in virtual time: changes arrive, coalesce while they wait, and are served by
 * permits. The pacing and the ranks are the daemon's own code (src/core/quota/pacing.ts, src/core/sync/rank.ts)
 * on the view that the quota would give it; the two windows are modelled exactly.
 */
import type { Lane } from "../src/core/event/lane.ts";
import {
  HOUR_PARTS,
  NEW,
  paceOf,
  takeTurn,
  type Pace,
  type PaceRules,
  type PaceState,
  type PacingView,
} from "../src/core/quota/pacing.ts";
import type { Pace as RecordPace } from "../src/core/sync/ledger-row.ts";
import { NO_FIRST_CHANGES, placeOf, SLICES_KEPT, sliceOf } from "../src/core/sync/rank.ts";
import {
  laneOf,
  WaitingRecords,
  type Change,
  type KnownRecord,
  type RankOf,
} from "./waiting-records.ts";

/** The two windows of the quota, and the service. */
export interface Settings {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  readonly liveReserve: number;
  readonly latencyMs: number;
  /** Requests at once. */
  readonly concurrency: number;
}

/** How permits are spent: crmsync's own way, or one that it is compared with. */
export interface Strategy {
  readonly pace: (view: PacingView, lane: Lane) => Pace;
  readonly ranks: (settings: Settings) => RankOf;
}

/** Time to take one permit; they are taken one after the other. */
const PERMIT_MS = 3;

/** A waiter asks again at least this often. */
const ASK_AGAIN_MS = 500;

/** What is shorter may be lost where it is added to a date, ms. */
const WAIT_LEAST_MS = 0.01;

/** What crmsync does: docs/adr/0026. */
export const CRMSYNC: Strategy = { pace: paceOf, ranks: demandRanks };

/** The order in which crmsync serves live records, as staging keeps it (src/core/state/staged-state.ts). */
function demandRanks({ hourMs }: Settings): RankOf {
  const paces = new Map<number, RecordPace>();
  let first = NO_FIRST_CHANGES;
  return (changes, rank, lowest) => {
    const [{ at, record }] = changes;
    const newest = changes.at(-1)?.at ?? at;
    const asked = { now: newest, lowestRank: lowest };
    const place = placeOf(paces.get(record), first, asked, hourMs);
    paces.set(record, place.pace);
    first = place.first;
    return rank === undefined ? place.rank.first - (newest - at) : place.rank.again(rank);
  };
}

/** @param changes in the order of their times. */
export const simulate = (
  changes: readonly Change[],
  settings: Settings,
  strategy: Strategy = CRMSYNC,
) => new Simulation(changes, settings, strategy).run();

/** No turn was taken yet, however early the first change is. */
const NO_TURNS: PaceState = {
  ...NEW,
  stop: Number.NEGATIVE_INFINITY,
  turn: Number.NEGATIVE_INFINITY,
  tat: Number.NEGATIVE_INFINITY,
  alone: Number.NEGATIVE_INFINITY,
};

class Simulation {
  readonly #changes: readonly Change[];
  readonly #settings: Settings;
  readonly #pace: Strategy["pace"];
  readonly #rules: PaceRules;
  readonly #records: WaitingRecords;
  /** When each request was sent. */
  readonly #requests: number[] = [];
  /** How many of them do not count in the hour any more. */
  #returned = 0;
  /** Live changes that waited, by slice of the hour. */
  readonly #demand = new Map<number, number>();
  /** Requests under way, in the order of their replies. */
  readonly #underWay: { readonly sent: KnownRecord; readonly until: number }[] = [];
  #nextChange = 0;
  #now = Number.NEGATIVE_INFINITY;
  #turns = NO_TURNS;

  constructor(changes: readonly Change[], settings: Settings, { pace, ranks }: Strategy) {
    this.#changes = changes;
    this.#settings = settings;
    this.#pace = pace;
    this.#rules = { ...settings, pacing: "burst" };
    this.#records = new WaitingRecords(changes.length, ranks(settings));
  }

  run() {
    while (this.#lane !== undefined || this.#nextEventAt < Number.POSITIVE_INFINITY) this.#step();
    return { settledAt: this.#records.settledAt, requests: this.#requests };
  }

  /** Sends one request, or goes to the time of the next event that could allow one. */
  #step(): void {
    const { burst, burstMs, concurrency, hourMs, latencyMs, perHour } = this.#settings;
    const now = this.#now;
    const lane = this.#lane;
    if (lane === undefined) return this.#advanceTo(this.#nextEventAt);
    if (this.#underWay.length >= concurrency) return this.#advanceTo(this.#nextReplyAt);
    const slotAt = Math.max(this.#freeAt(perHour, hourMs), this.#freeAt(burst, burstMs));
    if (slotAt > now) return this.#waitTo(slotAt);
    const pace = this.#pace(this.#view(), lane);
    // What is left of the hour is for live changes.
    if (pace === undefined) return this.#waitTo(this.#nextReturnAt);
    const seen = { now, state: this.#turns, lowestRank: this.#records.lowestRank };
    const turns = takeTurn(seen, pace, this.#rules);
    if (typeof turns === "number") {
      return this.#waitTo(now + Math.max(WAIT_LEAST_MS, Math.min(turns, ASK_AGAIN_MS)));
    }
    this.#turns = turns;
    this.#underWay.push({ sent: this.#records.take(lane), until: now + latencyMs });
    this.#requests.push(now);
    this.#advanceTo(now + PERMIT_MS);
  }

  /** Waits until then, or until a change comes. */
  #waitTo(at: number): void {
    this.#advanceTo(Math.min(at, this.#nextChangeAt));
  }

  get #lane(): Lane | undefined {
    if (this.#records.count("live") > 0) return "live";
    return this.#records.count("bulk") > 0 ? "bulk" : undefined;
  }

  get #nextEventAt(): number {
    return Math.min(this.#nextChangeAt, this.#nextReplyAt);
  }

  get #nextChangeAt(): number {
    return this.#changes[this.#nextChange]?.at ?? Number.POSITIVE_INFINITY;
  }

  get #nextReplyAt(): number {
    return this.#underWay[0]?.until ?? Number.POSITIVE_INFINITY;
  }

  /** When the next slot of the hour returns. */
  get #nextReturnAt(): number {
    const { hourMs, latencyMs } = this.#settings;
    return (this.#requests[this.#returned] ?? Number.POSITIVE_INFINITY) + hourMs + latencyMs;
  }

  /** When a window has a free slot: each is held from the permit until the reply and the window have passed. */
  #freeAt(limit: number, windowMs: number): number {
    const last = this.#requests.at(-limit) ?? Number.NEGATIVE_INFINITY;
    return last + windowMs + this.#settings.latencyMs;
  }

  /** Lets everything happen that happens until then, in its order. */
  #advanceTo(now: number): void {
    while (this.#nextEventAt <= now) {
      if (this.#nextReplyAt <= this.#nextChangeAt) this.#answered();
      else this.#arrive();
    }
    this.#now = now;
    while (this.#nextReturnAt <= now) this.#returned += 1;
  }

  #answered(): void {
    const request = this.#underWay.shift();
    if (request !== undefined) this.#records.answered(request.sent, request.until);
  }

  #arrive(): void {
    const change = this.#changes[this.#nextChange] as Change;
    this.#records.arrive({ ...change, index: this.#nextChange });
    this.#nextChange += 1;
    if (laneOf(change) !== "live") return;
    const slice = sliceOf(change.at, this.#settings.hourMs);
    this.#demand.set(slice, this.#changedIn(slice) + 1);
  }

  #changedIn(slice: number): number {
    return this.#demand.get(slice) ?? 0;
  }

  #view(): PacingView {
    const now = this.#now;
    const { perHour, hourMs, latencyMs, liveReserve } = this.#settings;
    const slice = sliceOf(now, hourMs);
    const held = this.#requests.slice(this.#returned);
    const returns = Array.from({ length: HOUR_PARTS }, () => 0);
    for (const at of held) {
      const inMs = at + hourMs + latencyMs - now;
      const part = Math.min(HOUR_PARTS - 1, Math.floor(inMs / (hourMs / HOUR_PARTS)));
      returns[part] = (returns[part] ?? 0) + 1;
    }
    return {
      limit: perHour,
      remaining: perHour - held.length,
      returns,
      demand: Array.from({ length: SLICES_KEPT }, (_, n) => this.#changedIn(slice - 1 - n)),
      waiting: this.#records.count("live"),
      hourMs,
      liveReserve,
    };
  }
}

/** The ages of changes, from each change to its proof on the service, ms. */
export type Ages = ReturnType<typeof agesOf>;

/** @param ages ms */
export function agesOf(ages: Float64Array) {
  const sorted = ages.toSorted();
  const quantile = (part: number): number => sorted[Math.floor(part * sorted.length)] ?? 0;
  const mean = sorted.reduce((sum, age) => sum + age, 0) / Math.max(1, sorted.length);
  return { p50: quantile(0.5), mean, p99: quantile(0.99), max: sorted.at(-1) ?? 0 };
}
