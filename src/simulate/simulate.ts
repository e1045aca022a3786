/**
 * Simulates the quota in virtual time: changes arrive, coalesce while they wait, and are served by
 * permits. The pacing is the daemon's own code (src/quota/pacing.ts) on the view that the quota
 * would give it; the two windows, and the turns of src/quota/lua/claim-turn.lua, are modelled exactly.
 */
import { HOUR_PARTS, paceOf, turnAt, type Pace, type PacingView } from "../quota/pacing.ts";
import { SLICES_KEPT, sliceMs } from "../sync/slices.ts";
import type { Lane } from "../event/lane.ts";
import { laneOf, type Change } from "./change.ts";
import { DemandOrder } from "./demand-order.ts";
import { DemandSlices } from "./demand-slices.ts";
import type { ServiceOrder } from "./service-order.ts";
import { SlotLog } from "./slot-log.ts";
import { WaitingRecords, type Taken } from "./waiting-records.ts";

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
  /** The order of the live records. */
  readonly order: (settings: Settings) => ServiceOrder;
}

export interface Run {
  /** When each request was sent, ms. */
  readonly requests: readonly number[];
  /** When each change was proven on the service, or needed nothing more, ms; by its index. */
  readonly settledAt: Float64Array;
  /** Changes that were sent, replaced by a newer one before that, or needed no request. */
  readonly counts: {
    readonly sent: number;
    readonly coalesced: number;
    readonly unchanged: number;
  };
  /** For how long changes waited while no slot of the hour was free, ms. */
  readonly exhaustedMs: number;
}

/** Time to take one permit; they are taken one after the other. */
const PERMIT_MS = 3;

/** A waiter asks again at least this often. */
const ASK_AGAIN_MS = 500;

/** What crmsync does: docs/adr/0026. */
export const CRMSYNC: Strategy = {
  pace: paceOf,
  order: ({ hourMs }) => new DemandOrder(hourMs),
};

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

class Simulation {
  readonly #changes: readonly Change[];
  readonly #settings: Settings;
  readonly #strategy: Strategy;
  readonly #live: ServiceOrder;
  readonly #records: WaitingRecords;
  readonly #hour: SlotLog;
  readonly #burst: SlotLog;
  readonly #demand: DemandSlices;
  readonly #requests: number[] = [];
  /** Requests under way, in the order of their replies. */
  readonly #underWay: { readonly taken: Taken; readonly until: number }[] = [];
  #nextChange = 0;
  #now = Number.NEGATIVE_INFINITY;
  /** As in the pace hash (lua/pace.lua): the last even turn, and when the steady bucket is full. */
  #turn = Number.NEGATIVE_INFINITY;
  #tat = Number.NEGATIVE_INFINITY;
  #exhaustedMs = 0;

  constructor(changes: readonly Change[], settings: Settings, strategy: Strategy) {
    this.#changes = changes;
    this.#settings = settings;
    this.#strategy = strategy;
    this.#live = strategy.order(settings);
    this.#records = new WaitingRecords(changes, this.#live, settings.readsFirst ?? false);
    this.#hour = new SlotLog(settings.perHour, settings.hourMs);
    this.#burst = new SlotLog(settings.burst, settings.burstMs);
    this.#demand = new DemandSlices(sliceMs(settings.hourMs));
  }

  get isOver(): boolean {
    return (
      this.#lane === undefined && this.#nextChangeAt === Infinity && this.#underWay.length === 0
    );
  }

  run(): Run {
    const { settledAt, counts } = this.#records;
    return { requests: this.#requests, settledAt, counts, exhaustedMs: this.#exhaustedMs };
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
    const pace = this.#strategy.pace(this.#view(), lane);
    const turnAt = pace === undefined ? this.#hour.nextReturnAt : this.#turnAt(pace);
    if (turnAt > this.#now) {
      const askAgainAt = pace === undefined ? turnAt : this.#now + ASK_AGAIN_MS;
      const until = Math.min(turnAt, askAgainAt, this.#nextChangeAt);
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
    const evenAt =
      pace.intervalMs > 0
        ? turnAt(pace, this.#turn, this.#live.lowestRank)
        : Number.NEGATIVE_INFINITY;
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
    const taken = this.#records.take(lane, now);
    const until = now + latencyMs;
    this.#underWay.push({ taken, until });
    this.#hour.spend(until);
    this.#burst.spend(until);
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
    if (request !== undefined) this.#records.answered(request.taken, request.until);
  }

  #arrive(): void {
    const change = this.#changes[this.#nextChange] as Change;
    const waits = this.#records.arrive(this.#nextChange);
    if (waits && laneOf(change) === "live") this.#demand.count(change.at);
    this.#nextChange += 1;
  }

  #view(): PacingView {
    const now = this.#now;
    const { perHour, hourMs, liveReserve } = this.#settings;
    return {
      limit: perHour,
      remaining: this.#hour.free,
      returns: this.#hour.returns(now, HOUR_PARTS),
      ...this.#demand.view(now, SLICES_KEPT),
      waiting: this.#records.count("live"),
      hourMs,
      liveReserve,
    };
  }
}
