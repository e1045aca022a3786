/** What a simulation says, as a document; report-text.ts makes the text for people. */
import { LANES, type Lane } from "../event/lane.ts";
import type { Load } from "./event-load.ts";
import { agesOf, type Run, type Settings } from "./simulate.ts";
import { laneOf, type Change } from "./waiting-records.ts";

export type Report = ReturnType<typeof reportOf>;
export type Freshness = ReturnType<typeof freshnessOf>;

/** Parts of the time in the chart. */
const COLUMNS = 60;

/** Times are ISO 8601 in UTC, ages in seconds: of a change from its event to its proof on the service. */
export function reportOf(load: Load, invalid: number, run: Run, settings: Settings) {
  const { changes, events: valid, duplicates, outOfOrder, records } = load;
  const lanes = LANES.map(
    (lane) => [lane, freshnessOf(changes, run, (change) => laneOf(change) === lane)] as const,
  );
  const hasBoth = lanes.every(([, ofLane]) => ofLane.changes > 0);
  return {
    from: isoTime(changes[0]?.at ?? 0),
    to: isoTime(changes.at(-1)?.at ?? 0),
    /** When the last change is on the service. */
    settledAt: isoTime(run.settledAt.reduce((a, b) => Math.max(a, b), 0)),
    events: { valid, invalid, duplicates, outOfOrder },
    records,
    /** Of all changes: those that were sent, coalesced, or unchanged. */
    changes: run.counts,
    requests: {
      total: run.requests.length,
      /** Each record that changed needs one. */
      atLeast: records,
      mostInOneHour: mostWithin(run.requests, settings.hourMs),
    },
    /** Hours in which changes waited and no request of the hour was left. */
    exhaustedHours: rounded(run.exhaustedMs / settings.hourMs),
    freshness: {
      all: freshnessOf(changes, run, () => true),
      ...(hasBoth && (Object.fromEntries(lanes) as Record<Lane, Freshness>)),
    },
    settings,
    chart: chartOf(changes, run.settledAt, COLUMNS),
  };
}

function freshnessOf(
  changes: readonly Change[],
  { settledAt }: Run,
  isOfLane: (change: Change) => boolean,
) {
  const ages = settledAt
    .map((at, index) => at - (changes[index]?.at ?? 0))
    .filter((_, index) => isOfLane(changes[index] as Change));
  const { p50, mean, p99, max } = agesOf(ages);
  return {
    changes: ages.length,
    p50Seconds: seconds(p50),
    meanSeconds: seconds(mean),
    p99Seconds: seconds(p99),
    maxSeconds: seconds(max),
  };
}

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

/** For each part of the time: the most changes that waited at once, and the greatest age that one of it reached. */
export function chartOf(changes: readonly Change[], settledAt: Float64Array, columns: number) {
  const ends = settledAt.toSorted();
  const begin = changes[0]?.at ?? 0;
  const ms = Math.max(1, ((ends.at(-1) ?? begin) - begin) / columns);
  let next = 0;
  let ended = 0;
  return Array.from({ length: columns }, (_, column) => {
    const from = begin + column * ms;
    const until = column === columns - 1 ? Number.POSITIVE_INFINITY : from + ms;
    let waiting = next - ended;
    let age = 0;
    for (let at = changes[next]?.at; at !== undefined && at < until; at = changes[next]?.at) {
      age = Math.max(age, (settledAt[next] ?? at) - at);
      next += 1;
      while ((ends[ended] ?? Number.POSITIVE_INFINITY) <= at) ended += 1;
      waiting = Math.max(waiting, next - ended);
    }
    while ((ends[ended] ?? Number.POSITIVE_INFINITY) < until) ended += 1;
    return { from: isoTime(from), waiting, maxAgeSeconds: seconds(age) };
  });
}

const isoTime = (ms: number): string => new Date(ms).toISOString();
const rounded = (value: number): number => Math.round(value * 1000) / 1000;
const seconds = (ms: number): number => rounded(ms / 1000);
