/** Chapter "pacing": the same loads under each pacing and order, in virtual time. */
import type { Pace } from "../src/core/quota/pacing.ts";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../src/core/service-spec/limits.ts";
import { COMPARED, LOADS } from "./changes.ts";
import { lowerBound } from "./lower-bound.ts";
import { replay, type Figures } from "./replay.ts";
import { agesOf, CRMSYNC, simulate, type Settings, type Strategy } from "./simulate.ts";
import type { Table } from "./table.ts";
import type { Change, Changes, RankOf } from "./waiting-records.ts";

const SETTINGS: Settings = {
  perHour: REQUESTS_PER_HOUR,
  hourMs: HOUR_MS,
  burst: BURST_REQUESTS,
  burstMs: BURST_WINDOW_MS,
  liveReserve: 100,
  latencyMs: 80,
  concurrency: 10,
};

export interface NamedStrategy extends Strategy {
  readonly name: string;
}

/** The last one is what crmsync does. */
export const STRATEGIES: readonly NamedStrategy[] = [
  { name: "burst", pace: () => ({ intervalMs: 0, early: 0 }), ranks: ranked(byFirst) },
  {
    name: "even pace",
    pace: () => ({ intervalMs: HOUR_MS / REQUESTS_PER_HOUR, early: 0 }),
    ranks: ranked(byFirst),
  },
  { name: "auto, first changed first", pace: noneEarly, ranks: ranked(byFirst) },
  {
    name: "auto, newest change first",
    pace: noneEarly,
    ranks: ranked((changes) => -(changes.at(-1)?.at ?? 0)),
  },
  {
    name: "auto, most changes first",
    pace: noneEarly,
    ranks: ranked((changes) => -changes.length),
  },
  { name: "crmsync: age, usual gap, changes", ...CRMSYNC },
];

/** crmsync's pace for other orders, whose ranks are no times: no turn is taken early. */
function noneEarly(...asked: Parameters<Strategy["pace"]>): Pace {
  const pace = CRMSYNC.pace(...asked);
  return pace && { ...pace, early: 0 };
}

function byFirst([first]: Readonly<Changes>): number {
  return first.at;
}

function ranked(rank: RankOf): Strategy["ranks"] {
  return () => rank;
}

export function figuresOf(changes: readonly Change[], strategy: Strategy): Figures {
  const { requests, settledAt } = simulate(changes, SETTINGS, strategy);
  const ages = settledAt
    .map((at, index) => at - (changes[index]?.at ?? at))
    .filter((_, index) => isLive(changes[index]));
  const last = settledAt.reduce((latest, at) => Math.max(latest, at), 0);
  return { requests: requests.length, ...agesOf(ages), settledAt: last };
}

const isLive = (change: Change | undefined) => change?.lane !== "bulk";

const SEEDS = Array.from({ length: 15 }, (_, i) => i + 1);

/** Ages of live changes in seconds: means over the seeds, and in brackets the worst seed. */
export async function runPacing(redisUrl: string): Promise<Table[]> {
  return [compare(), measureAll(), await compareWithReality(redisUrl)];
}

function compare(): Table {
  const rows = COMPARED.flatMap((load) =>
    STRATEGIES.map((strategy) => ({
      load: load.name,
      strategy: strategy.name,
      ...rowOf(SEEDS.map((seed) => figuresOf(load.changes(seed), strategy))),
    })),
  );
  return { title: `Pacing: strategies (${SEEDS.length} seeds, virtual time)`, rows };
}

/** The lower bound (bench/lower-bound.ts) is that of the first seed. */
function measureAll(): Table {
  const rows = LOADS.map((load) => {
    const runs = SEEDS.map((seed) => figuresOf(load.changes(seed), CRMSYNC));
    const bound = lowerBound(load.changes(1).filter(isLive), SETTINGS);
    return {
      load: load.name,
      ...rowOf(runs),
      "mean at least": seconds(bound.mean),
      "p99 at least": seconds(bound.p99),
      "max at least": seconds(bound.max),
    };
  });
  return { title: `Pacing: crmsync on all loads (${SEEDS.length} seeds, virtual time)`, rows };
}

/** The hour of the real processes, ms: short, but long beside the pauses of a machine. */
const REAL_HOUR_MS = 100_000;
const REAL_SEED = 1;

/** The same changes in virtual time, and through real processes on a real Redis with a faster clock. */
async function compareWithReality(redisUrl: string): Promise<Table> {
  const rows: Table["rows"][number][] = [];
  for (const { name, changes } of LOADS.filter((load) => load.isReplayed)) {
    const stream = changes(REAL_SEED);
    const quota = {
      prefix: `{bench-pacing-${process.pid}-${rows.length}}`,
      perHour: REQUESTS_PER_HOUR,
      hourMs: REAL_HOUR_MS,
      burst: BURST_REQUESTS,
      burstMs: (BURST_WINDOW_MS * REAL_HOUR_MS) / HOUR_MS,
      pacing: "auto" as const,
      liveReserve: SETTINGS.liveReserve,
    };
    const real = await replay(stream, { redisUrl, quota, processes: 3 });
    rows.push({ load: name, run: "virtual time", ...rowOf([figuresOf(stream, CRMSYNC)]) });
    rows.push({ load: name, run: "3 processes", ...rowOf([real]) });
  }
  const title = `Pacing: virtual time and real processes (seed ${REAL_SEED}, an hour of ${REAL_HOUR_MS / 1000} s)`;
  return { title, rows };
}

function rowOf(runs: readonly Figures[]): Record<string, string> {
  const figure = (of: (run: Figures) => number, text: (value: number) => string) => {
    const mean = runs.reduce((sum, run) => sum + of(run), 0) / runs.length;
    return runs.length > 1 ? `${text(mean)} (${text(Math.max(...runs.map(of)))})` : text(mean);
  };
  return {
    requests: figure(
      (run) => run.requests,
      (value) => String(Math.round(value)),
    ),
    "p50 s": figure((run) => run.p50, seconds),
    "mean s": figure((run) => run.mean, seconds),
    "p99 s": figure((run) => run.p99, seconds),
    "max s": figure((run) => run.max, seconds),
    "settled s": figure((run) => run.settledAt, seconds),
  };
}

const seconds = (ms: number): string =>
  ms < 9950 ? (ms / 1000).toFixed(1) : `${Math.round(ms / 1000)}`;
