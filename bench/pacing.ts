/** Chapter "pacing": the same loads under each pacing and order, in virtual time. */
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../src/service-spec/limits.ts";
import type { Change } from "../src/simulate/change.ts";
import { agesOf, type Ages } from "../src/simulate/figures.ts";
import { RankedOrder, type ServiceOrder, type Waiting } from "../src/simulate/service-order.ts";
import { CRMSYNC, simulate, type Settings, type Strategy } from "../src/simulate/simulate.ts";
import { LOADS } from "./changes.ts";
import type { Table } from "./table.ts";

const SETTINGS: Settings = {
  perHour: REQUESTS_PER_HOUR,
  hourMs: HOUR_MS,
  burst: BURST_REQUESTS,
  burstMs: BURST_WINDOW_MS,
  liveReserve: 0,
  steady: false,
  latencyMs: 80,
  concurrency: 10,
};

export interface NamedStrategy extends Strategy {
  readonly name: string;
}

/** The last one is what crmsync does. */
export const STRATEGIES: readonly NamedStrategy[] = [
  { name: "burst", pace: () => 0, order: ranked(byFirst) },
  { name: "even pace", pace: () => HOUR_MS / REQUESTS_PER_HOUR, order: ranked(byFirst) },
  { name: "auto, first changed first", pace: CRMSYNC.pace, order: ranked(byFirst) },
  {
    name: "auto, newest change first",
    pace: CRMSYNC.pace,
    order: ranked(({ newest }) => -newest),
  },
  {
    name: "auto, most changes first",
    pace: CRMSYNC.pace,
    order: ranked(({ changes }) => -changes.length),
  },
  {
    name: "auto, largest sum of ages",
    pace: CRMSYNC.pace,
    order: () => new LargestSumOfAges(),
  },
  { name: "auto, age + 15 s per change", ...CRMSYNC },
];

function byFirst({ first }: Waiting): number {
  return first;
}

function ranked(rank: (waiting: Waiting) => number): Strategy["order"] {
  return () => new RankedOrder(rank);
}

/** The sums of two records grow at different rates, so none of them keeps its place. */
class LargestSumOfAges implements ServiceOrder {
  readonly #waiting = new Set<Waiting>();

  get size(): number {
    return this.#waiting.size;
  }

  add(entry: Waiting): void {
    this.#waiting.add(entry);
  }

  changed(): void {}

  remove(entry: Waiting): void {
    this.#waiting.delete(entry);
  }

  first(now: number): Waiting | undefined {
    let first: Waiting | undefined;
    let largest = Number.NEGATIVE_INFINITY;
    for (const entry of this.#waiting) {
      const sum = entry.changes.length * now - entry.sum;
      if (sum <= largest) continue;
      largest = sum;
      first = entry;
    }
    return first;
  }
}

export interface Figures extends Omit<Ages, "mean"> {
  readonly requests: number;
  /** When the last change was on the service, ms from the start. */
  readonly settledAt: number;
}

export function figuresOf(changes: readonly Change[], strategy: Strategy): Figures {
  const { requests, settledAt } = simulate(changes, SETTINGS, strategy);
  const ages = settledAt.map((at, index) => at - (changes[index]?.at ?? at));
  const last = settledAt.reduce((latest, at) => Math.max(latest, at), 0);
  return { requests: requests.length, ...agesOf(ages), settledAt: last };
}

const SEEDS = Array.from({ length: 15 }, (_, i) => i + 1);

/** Means over the seeds; ages in seconds. */
export function runPacing(): Table {
  const rows = LOADS.flatMap((load) =>
    STRATEGIES.map((strategy) => {
      const runs = SEEDS.map((seed) => figuresOf(load.changes(seed), strategy));
      const mean = (of: (run: Figures) => number) =>
        Math.round(runs.reduce((sum, run) => sum + of(run), 0) / runs.length);
      return {
        load: load.name,
        strategy: strategy.name,
        requests: mean((run) => run.requests),
        "p50 s": mean((run) => run.p50 / 1000),
        "p99 s": mean((run) => run.p99 / 1000),
        "max s": mean((run) => run.max / 1000),
        "settled s": mean((run) => run.settledAt / 1000),
      };
    }),
  );
  return { title: `Pacing (means of ${SEEDS.length} seeds, virtual time)`, rows };
}
