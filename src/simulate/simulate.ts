/**
 * Simulates the quota in virtual time: changes arrive, coalesce while they wait, and are served by
 * permits. The pacing and the ranks are the daemon's own code (src/quota/pacing.ts, src/sync/rank.ts) on the
 * view that the quota would give it; the two windows, and the turns of src/quota/lua/claim-turn.lua, are
 * modelled exactly.
 */
import type { Lane } from "../event/lane.ts";
import { HOUR_PARTS, paceOf, turnAt, type Pace, type PacingView } from "../quota/pacing.ts";
import type { Pace as RecordPace } from "../sync/ledger-row.ts";
import {
  gapOf,
  leadOf,
  learn,
  NO_FIRST_CHANGES,
  rankAgain,
  rankOf,
  SLICES_KEPT,
  sliceMs,
  sliceOf,
} from "../sync/rank.ts";
import {
  laneOf,
  WaitingRecords,
  type Change,
  type RankOf,
  type Waiting,
} from "./waiting-records.ts";

/** The two windows of the quota, and the service. */
export interface Settings {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  readonly liveReserve: number;
  /** Only at the even rate of a bucket that holds half a burst, as after an unexplained 429. */
  readonly steady: boolean;
  readonly latencyMs: number;
  /** Requests at once. */
  readonly concurrency: number;
  /** Whether an update reads the relation first: the mapping leaves fields to others. */
  readonly readsFirst?: boolean;
}

/** How permits are spent: crmsync's own way, or one that it is compared with. */
export interface Strategy {
  readonly pace: (view: PacingView, lane: Lane) => Pace;
  readonly ranks: (settings: Settings) => RankOf;
}

export type Run = ReturnType<Simulation["run"]>;

/** Time to take one permit; they are taken one after the other. */
const PERMIT_MS = 3;

/** A waiter asks again at least this often. */
const ASK_AGAIN_MS = 500;

/** What crmsync does: docs/adr/0026. */
export const CRMSYNC: Strategy = { pace: paceOf, ranks: demandRanks };

/** The order in which crmsync serves live records, as staging keeps it (src/state/staged-state.ts). */
function demandRanks({ hourMs }: Settings): RankOf {
  const paces = new Map<number, RecordPace>();
  let first = NO_FIRST_CHANGES;
  return (waiting, rank, lowest) => {
    const learnt = learn(paces.get(waiting.record), first, waiting.newest, hourMs);
    paces.set(waiting.record, learnt.pace);
    first = learnt.first;
    const lead = leadOf(waiting.newest, lowest);
    if (rank !== undefined) return rankAgain(rank, lead, hourMs);
    return rankOf(waiting.first, gapOf(learnt.pace, first, hourMs), lead);
  };
}

/** @param changes in the order of their times. */
export function simulate(
  changes: readonly Change[],
  settings: Settings,
  strategy: Strategy = CRMSYNC,
): Run {
  const simulation = new Simulation(changes, settings, strategy);
  while (!simulation.isOver) simulation.step();
  return simulation.run();
}

/** One window of the quota: a slot is held from the permit until the reply and the window have passed. */
class Window {
  readonly #limit: number;
  readonly #heldMs: number;
  readonly #requests: readonly number[];
  /** The first request that still counts. */
  #first = 0;

  constructor(limit: number, heldMs: number, requests: readonly number[]) {
    this.#limit = limit;
    this.#heldMs = heldMs;
    this.#requests = requests;
  }

  get free(): number {
    return this.#limit - (this.#requests.length - this.#first);
  }

  get nextReturnAt(): number {
    return (this.#requests[this.#first] ?? Number.POSITIVE_INFINITY) + this.#heldMs;
  }

  /** When a slot is free: the past, while there is one. */
  get freeAt(): number {
    return this.free > 0 ? Number.NEGATIVE_INFINITY : this.nextReturnAt;
  }

  advanceTo(now: number): void {
    while (this.nextReturnAt <= now) this.#first += 1;
  }

  /** How many slots return in each of so many parts of this length from now on; the last one has no end. */
  returns(now: number, parts: number, partMs: number): number[] {
    const counts = Array.from({ length: parts }, () => 0);
    for (let index = this.#first; index < this.#requests.length; index += 1) {
      const inMs = (this.#requests[index] ?? 0) + this.#heldMs - now;
      const part = Math.min(parts - 1, Math.floor(inMs / partMs));
      counts[part] = (counts[part] ?? 0) + 1;
    }
    return counts;
  }
}

class Simulation {
  readonly #changes: readonly Change[];
  readonly #settings: Settings;
  readonly #pace: Strategy["pace"];
  readonly #records: WaitingRecords;
  readonly #requests: number[] = [];
  readonly #hour: Window;
  readonly #burst: Window;
  /** Live changes that waited, by slice of the hour. */
  readonly #demand = new Map<number, number>();
  /** Requests under way, in the order of their replies. */
  readonly #underWay: { readonly sent: Waiting; readonly until: number }[] = [];
  #nextChange = 0;
  #now = Number.NEGATIVE_INFINITY;
  /** As in the pace hash (lua/pace.lua): the last even turn, and when the steady bucket is full. */
  #turn = Number.NEGATIVE_INFINITY;
  #tat = Number.NEGATIVE_INFINITY;
  #exhaustedMs = 0;

  constructor(changes: readonly Change[], settings: Settings, { pace, ranks }: Strategy) {
    const { burst, burstMs, hourMs, latencyMs, perHour, readsFirst = false } = settings;
    this.#changes = changes;
    this.#settings = settings;
    this.#pace = pace;
    this.#records = new WaitingRecords(changes.length, ranks(settings), readsFirst);
    this.#hour = new Window(perHour, hourMs + latencyMs, this.#requests);
    this.#burst = new Window(burst, burstMs + latencyMs, this.#requests);
  }

  get isOver(): boolean {
    return (
      this.#lane === undefined && this.#nextChangeAt === Infinity && this.#underWay.length === 0
    );
  }

  run() {
    const { settledAt, counts } = this.#records;
    /** When each request was sent, and for how long changes waited while no slot of the hour was free, ms. */
    const sent = { requests: this.#requests, exhaustedMs: this.#exhaustedMs };
    return { settledAt, counts, ...sent };
  }

  /** Sends one request, or goes to the time of the next event that could allow one. */
  step(): void {
    const lane = this.#lane;
    if (lane === undefined) return this.#advanceTo(Math.min(this.#nextChangeAt, this.#nextReplyAt));
    if (this.#underWay.length >= this.#settings.concurrency) {
      return this.#advanceTo(this.#nextReplyAt);
    }
    const slotAt = Math.max(this.#hour.freeAt, this.#burst.freeAt);
    if (slotAt > this.#now) {
      const until = Math.min(slotAt, this.#nextChangeAt);
      return this.#waitTo(until, Math.min(until, this.#hour.freeAt));
    }
    const pace = this.#pace(this.#view(), lane);
    const turn = pace === undefined ? this.#hour.nextReturnAt : this.#turnAt(pace);
    if (turn > this.#now) {
      const askAgainAt = pace === undefined ? turn : this.#now + ASK_AGAIN_MS;
      const until = Math.min(turn, askAgainAt, this.#nextChangeAt);
      // Without a pace, what is left of the hour is for live changes.
      return this.#waitTo(until, pace === undefined ? until : this.#now);
    }
    return this.#send(lane, pace?.intervalMs ?? 0);
  }

  /** @param exhaustedUntil so long the quota of the hour is the reason. */
  #waitTo(until: number, exhaustedUntil: number): void {
    this.#exhaustedMs += Math.max(0, exhaustedUntil - this.#now);
    this.#advanceTo(until);
  }

  get #lane(): Lane | undefined {
    if (this.#records.count("live") > 0) return "live";
    return this.#records.count("bulk") > 0 ? "bulk" : undefined;
  }

  get #nextChangeAt(): number {
    return this.#changes[this.#nextChange]?.at ?? Number.POSITIVE_INFINITY;
  }

  get #nextReplyAt(): number {
    return this.#underWay[0]?.until ?? Number.POSITIVE_INFINITY;
  }

  /** When claim-turn.lua gives the next turn, as far as is known now. */
  #turnAt(pace: NonNullable<Pace>): number {
    const isEven = pace.intervalMs > 0;
    const evenAt = isEven ? turnAt(pace, this.#turn, this.#records.lowestRank) : -Infinity;
    if (!this.#settings.steady) return evenAt;
    const { burst, hourMs, perHour } = this.#settings;
    const depth = Math.max(1, Math.floor(burst / 2));
    return Math.max(evenAt, this.#tat - ((depth - 1) * hourMs) / perHour);
  }

  #send(lane: Lane, interval: number): void {
    const now = this.#now;
    const { hourMs, perHour, latencyMs } = this.#settings;
    this.#turn = Math.max(this.#turn + interval, now - interval);
    this.#tat = Math.max(this.#tat, now) + hourMs / perHour;
    this.#underWay.push({ sent: this.#records.take(lane), until: now + latencyMs });
    this.#requests.push(now);
    this.#advanceTo(now + PERMIT_MS);
  }

  /** Lets everything happen that happens until then, in its order. */
  #advanceTo(now: number): void {
    for (;;) {
      const at = Math.min(this.#nextChangeAt, this.#nextReplyAt);
      if (at > now) break;
      if (this.#nextReplyAt === at) this.#answered();
      else this.#arrive();
    }
    this.#now = now;
    this.#hour.advanceTo(now);
    this.#burst.advanceTo(now);
  }

  #answered(): void {
    const request = this.#underWay.shift();
    if (request !== undefined) this.#records.answered(request.sent, request.until);
  }

  #arrive(): void {
    const change = this.#changes[this.#nextChange] as Change;
    const waits = this.#records.arrive(this.#nextChange, change);
    this.#nextChange += 1;
    if (!waits || laneOf(change) !== "live") return;
    const slice = sliceOf(change.at, this.#settings.hourMs);
    this.#demand.set(slice, this.#changedIn(slice) + 1);
  }

  #changedIn(slice: number): number {
    return this.#demand.get(slice) ?? 0;
  }

  #view(): PacingView {
    const now = this.#now;
    const { perHour, hourMs, liveReserve } = this.#settings;
    const slice = sliceOf(now, hourMs);
    return {
      limit: perHour,
      remaining: this.#hour.free,
      returns: this.#hour.returns(now, HOUR_PARTS, hourMs / HOUR_PARTS),
      demand: Array.from({ length: SLICES_KEPT }, (_, n) => this.#changedIn(slice - 1 - n)),
      current: { changed: this.#changedIn(slice), passed: now / sliceMs(hourMs) - slice },
      waiting: this.#records.count("live"),
      hourMs,
      liveReserve,
    };
  }
}

/** The ages of changes, from each change to its proof on the service, ms. */
export interface Ages {
  readonly p50: number;
  readonly mean: number;
  readonly p99: number;
  readonly max: number;
}

/** @param ages ms; they are sorted in place. */
export function agesOf(ages: Float64Array): Ages {
  ages.sort();
  const quantile = (part: number): number => ages[Math.floor(part * ages.length)] ?? 0;
  const mean = ages.reduce((sum, age) => sum + age, 0) / Math.max(1, ages.length);
  return { p50: quantile(0.5), mean, p99: quantile(0.99), max: ages.at(-1) ?? 0 };
}
