/**
 * Simulates hours of the quota in virtual time: changes arrive, coalesce while they wait, and are
 * served by permits. Pacing runs the product's code on the view that the quota would give it; only
 * the two windows are modelled, exactly.
 */
import { SLICES_KEPT, sliceMs } from "../src/quota/slices.ts";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../src/service-spec/limits.ts";
import { HOUR_PARTS, type Pace, type PacingView } from "../src/quota/pacing.ts";

/** One change of one record, ms from the start. */
export interface Change {
  readonly at: number;
  readonly record: number;
}

/** A waiting record, with the times of its coalesced changes. */
export interface Waiting {
  readonly record: number;
  readonly changes: number[];
}

export interface Strategy {
  readonly name: string;
  readonly pace: (view: PacingView) => Pace;
  /** The record with the highest rank is served next; without `rank`, the one that came first. */
  readonly rank?: (waiting: Waiting, now: number) => number;
}

/** Ages, ms: from each change to its proof on the service. */
export interface Figures {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** When the last change was on the service, ms from the start. */
  readonly settledAt: number;
}

const LATENCY_MS = 80;

/** Time to take one permit; they are taken one after the other. */
const PERMIT_MS = 3;

/** A waiter checks again at least this often. */
const CHECK_MS = 1000;

const PART_MS = HOUR_MS / HOUR_PARTS;
const SLICE_MS = sliceMs(HOUR_MS);

class Hours {
  readonly waiting = new Map<number, Waiting>();
  readonly ages: number[] = [];
  readonly #changes: readonly Change[];
  readonly #slices: Set<number>[] = [];
  /** When each spent slot returns, earliest first. */
  readonly #hour: number[] = [];
  readonly #burst: number[] = [];
  #next = 0;

  constructor(changes: readonly Change[]) {
    this.#changes = changes;
  }

  get nextArrival(): number {
    return this.#changes[this.#next]?.at ?? Number.POSITIVE_INFINITY;
  }

  advanceTo(now: number): void {
    while (this.nextArrival <= now) {
      const change = this.#changes[this.#next] as Change;
      const entry = this.waiting.get(change.record) ?? { record: change.record, changes: [] };
      entry.changes.push(change.at);
      this.waiting.set(change.record, entry);
      (this.#slices[Math.floor(change.at / SLICE_MS)] ??= new Set()).add(change.record);
      this.#next += 1;
    }
    for (const log of [this.#hour, this.#burst]) while ((log[0] ?? now + 1) <= now) log.shift();
  }

  /** When both windows have a free slot. */
  slotAt(): number {
    const full = this.#hour.length >= REQUESTS_PER_HOUR ? (this.#hour[0] ?? 0) : 0;
    return Math.max(full, this.#burst.length >= BURST_REQUESTS ? (this.#burst[0] ?? 0) : 0);
  }

  view(now: number): PacingView {
    const returns = Array.from({ length: HOUR_PARTS }, () => 0);
    for (const at of this.#hour) {
      const part = Math.min(HOUR_PARTS - 1, Math.floor((at - now) / PART_MS));
      returns[part] = (returns[part] ?? 0) + 1;
    }
    const slice = Math.floor(now / SLICE_MS);
    const changed = (index: number) => this.#slices[index]?.size ?? 0;
    return {
      limit: REQUESTS_PER_HOUR,
      remaining: REQUESTS_PER_HOUR - this.#hour.length,
      returns,
      demand: Array.from({ length: SLICES_KEPT }, (_, i) => changed(slice - 1 - i)),
      current: { changed: changed(slice), passed: now / SLICE_MS - slice },
      waiting: this.waiting.size,
      hourMs: HOUR_MS,
      liveReserve: 0,
    };
  }

  serve(entry: Waiting, now: number): number {
    const doneAt = now + LATENCY_MS;
    this.waiting.delete(entry.record);
    for (const at of entry.changes) this.ages.push(doneAt - at);
    this.#hour.push(doneAt + HOUR_MS);
    this.#burst.push(doneAt + BURST_WINDOW_MS);
    return doneAt;
  }
}

export function simulate(changes: readonly Change[], strategy: Strategy): Figures {
  const hours = new Hours(changes);
  let now = 0;
  let turn = Number.NEGATIVE_INFINITY;
  let requests = 0;
  let settledAt = 0;
  for (
    hours.advanceTo(now);
    hours.waiting.size > 0 || hours.nextArrival < Infinity;
    hours.advanceTo(now)
  ) {
    if (hours.waiting.size === 0) {
      now = hours.nextArrival;
      continue;
    }
    const slotAt = hours.slotAt();
    if (slotAt > now) {
      now = Math.min(slotAt, hours.nextArrival);
      continue;
    }
    const interval = strategy.pace(hours.view(now)) ?? CHECK_MS;
    if (turn + interval > now) {
      now = Math.min(turn + interval, hours.nextArrival, now + CHECK_MS);
      continue;
    }
    turn = Math.max(turn + interval, now - interval);
    settledAt = hours.serve(first(hours.waiting.values(), strategy.rank, now), now);
    requests += 1;
    now += PERMIT_MS;
  }
  const ages = hours.ages.sort((a, b) => a - b);
  const quantile = (part: number) => ages[Math.floor(part * ages.length)] ?? 0;
  return { requests, p50: quantile(0.5), p99: quantile(0.99), max: ages.at(-1) ?? 0, settledAt };
}

function first(waiting: Iterable<Waiting>, rank: Strategy["rank"], now: number): Waiting {
  let best: Waiting | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  for (const entry of waiting) {
    if (rank === undefined) return entry;
    const ranked = rank(entry, now);
    if (ranked <= highest) continue;
    highest = ranked;
    best = entry;
  }
  if (best === undefined) throw new Error("nothing waits");
  return best;
}
