/** What a simulation says, as a document; report-text.ts makes the text for people. */
import { LANES, type Lane } from "../event/lane.ts";
import { laneOf, type Change } from "./change.ts";
import { chartOf } from "./chart.ts";
import type { Load } from "./event-load.ts";
import { agesOf, type Ages } from "./figures.ts";
import { lowerBound } from "./lower-bound.ts";
import type { Run, Settings } from "./simulate.ts";

/** Ages in seconds, of a change from its event to its proof on the service. */
export interface Freshness {
  readonly p50Seconds: number;
  readonly meanSeconds: number;
  readonly p99Seconds: number;
  readonly maxSeconds: number;
}

export interface LaneReport extends Freshness {
  readonly changes: number;
}

/** Times are ISO 8601 in UTC. */
export interface Report {
  readonly from: string;
  readonly to: string;
  /** When the last change is on the service. */
  readonly settledAt: string;
  readonly events: {
    readonly valid: number;
    readonly invalid: number;
    readonly duplicates: number;
    readonly outOfOrder: number;
  };
  readonly records: number;
  /** Of all changes: those that were sent, coalesced, or unchanged. */
  readonly changes: Run["counts"];
  readonly requests: {
    readonly total: number;
    /** Each record that changed needs one. */
    readonly atLeast: number;
    readonly mostInOneHour: number;
  };
  /** Hours in which changes waited and no request of the hour was left. */
  readonly exhaustedHours: number;
  readonly freshness: {
    readonly all: LaneReport;
    /** What no schedule can beat. */
    readonly atLeast: Freshness;
  } & Readonly<Partial<Record<Lane, LaneReport>>>;
  readonly settings: Settings;
  readonly chart: readonly {
    readonly from: string;
    /** Most changes that waited at once. */
    readonly waiting: number;
    /** Greatest age that a change of this time reached. */
    readonly maxAgeSeconds: number;
  }[];
}

/** Parts of the time in the chart. */
const COLUMNS = 60;

export function reportOf(load: Load, invalid: number, run: Run, settings: Settings): Report {
  const { changes, events: valid, duplicates, outOfOrder, records } = load;
  const ofLane = (lane: Lane) => laneReport(changes, run, (change) => laneOf(change) === lane);
  const lanes = LANES.map((lane) => [lane, ofLane(lane)] as const);
  const hasBoth = lanes.every(([, { changes }]) => changes > 0);
  return {
    from: isoTime(changes[0]?.at ?? 0),
    to: isoTime(changes.at(-1)?.at ?? 0),
    settledAt: isoTime(latest(run.settledAt)),
    events: { valid, invalid, duplicates, outOfOrder },
    records,
    changes: run.counts,
    requests: {
      total: run.requests.length,
      atLeast: records,
      mostInOneHour: mostWithin(run.requests, settings.hourMs),
    },
    exhaustedHours: rounded(run.exhaustedMs / settings.hourMs),
    freshness: {
      all: laneReport(changes, run, () => true),
      atLeast: freshnessOf(lowerBound(changes, settings)),
      ...(hasBoth && Object.fromEntries(lanes)),
    },
    settings,
    chart: chartOf(changes, run.settledAt, COLUMNS).map(({ from, waiting, age }) => ({
      from: isoTime(from),
      waiting,
      maxAgeSeconds: seconds(age),
    })),
  };
}

function laneReport(
  changes: readonly Change[],
  { settledAt }: Run,
  isOfLane: (change: Change) => boolean,
): LaneReport {
  const ages = settledAt
    .map((at, index) => at - (changes[index]?.at ?? 0))
    .filter((_, index) => isOfLane(changes[index] as Change));
  return { changes: ages.length, ...freshnessOf(agesOf(ages)) };
}

const freshnessOf = ({ p50, mean, p99, max }: Ages): Freshness => ({
  p50Seconds: seconds(p50),
  meanSeconds: seconds(mean),
  p99Seconds: seconds(p99),
  maxSeconds: seconds(max),
});

/** The most requests within any stretch of this length. */
function mostWithin(times: readonly number[], ms: number): number {
  let most = 0;
  let first = 0;
  for (const [index, at] of times.entries()) {
    while ((times[first] ?? at) <= at - ms) first += 1;
    most = Math.max(most, index - first + 1);
  }
  return most;
}

const latest = (times: Float64Array): number => times.reduce((a, b) => Math.max(a, b), 0);
const isoTime = (ms: number): string => new Date(ms).toISOString();
const rounded = (value: number): number => Math.round(value * 1000) / 1000;
const seconds = (ms: number): number => rounded(ms / 1000);
