/** Chapter "pacing": the same loads under each pacing and order, in virtual time. */
import { priorityBonusMs } from "../src/quota/slices.ts";
import { HOUR_MS, REQUESTS_PER_HOUR } from "../src/service-spec/limits.ts";
import { paceOf, type PacingView } from "../src/quota/pacing.ts";
import { LOADS } from "./changes.ts";
import { simulate, type Figures, type Strategy, type Waiting } from "./pacing-simulator.ts";
import type { Table } from "./table.ts";

const BONUS_MS = priorityBonusMs(HOUR_MS);

const byAge = ({ changes }: Waiting, now: number) =>
  now - (changes[0] ?? now) + BONUS_MS * (changes.length - 1);
const byChanges = ({ changes }: Waiting) => changes.length;
const bySumOfAges = ({ changes }: Waiting, now: number) =>
  changes.reduce((sum, at) => sum + now - at, 0);
const byNewest = ({ changes }: Waiting) => changes.at(-1) ?? 0;

const auto = (view: PacingView) => paceOf(view, "live");

/** The last one is what crmsync does. */
export const STRATEGIES: readonly Strategy[] = [
  { name: "burst", pace: () => 0 },
  { name: "even pace", pace: () => HOUR_MS / REQUESTS_PER_HOUR },
  { name: "auto, first changed first", pace: auto },
  { name: "auto, newest change first", pace: auto, rank: byNewest },
  { name: "auto, most changes first", pace: auto, rank: byChanges },
  { name: "auto, largest sum of ages", pace: auto, rank: bySumOfAges },
  { name: "auto, age + 15 s per change", pace: auto, rank: byAge },
];

const SEEDS = Array.from({ length: 15 }, (_, i) => i + 1);

/** Means over the seeds; ages in seconds. */
export function runPacing(): Table {
  const rows = LOADS.flatMap((load) =>
    STRATEGIES.map((strategy) => {
      const runs = SEEDS.map((seed) => simulate(load.changes(seed), strategy));
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
