/** What a simulation says, as a document; report-text.ts makes the text for people. */
import type { Lane } from "../event/lane.ts";
import type { Load } from "./event-load.ts";
import type { Run, Settings } from "./simulate.ts";

export type Report = ReturnType<typeof reportOf>;
export type Freshness = ReturnType<typeof freshnessOf>;

/** Times are ISO 8601 in UTC, ages in seconds: of a change from its event to its proof on the service. */
export function reportOf(load: Load, invalid: number, run: Run, settings: Settings) {
  const { changes, events: valid, duplicates, outOfOrder, records } = load;
  const ages = run.settledAt.map((at, index) => at - (changes[index]?.at ?? at));
  const ofLane = (lane: Lane) =>
    freshnessOf(ages.filter((_, index) => changes[index]?.lane === lane));
  const lanes = { live: ofLane("live"), bulk: ofLane("bulk") };
  const hasBoth = lanes.live.changes > 0 && lanes.bulk.changes > 0;
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
    /** By lane, if there are changes of both. */
    freshness: { all: freshnessOf(ages), ...(hasBoth && lanes) },
    settings,
  };
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

function freshnessOf(ages: Float64Array) {
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

const isoTime = (ms: number): string => new Date(ms).toISOString();
const rounded = (value: number): number => Math.round(value * 1000) / 1000;
const seconds = (ms: number): number => rounded(ms / 1000);
