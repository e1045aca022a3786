/**
 * What no schedule can beat, not even one that knows the future. For each age A, `late` counts the
 * changes that every schedule must leave older than A: the quota lets only so many requests start
 * within a stretch of time, and the changes that lie at least A before the stretch's end must be
 * served inside it or be older than A. A request serves all changes of one record up to its start,
 * so what a stretch needs is found for each record by itself (cover points by intervals of length A).
 * From `late` follow p50, p99 and the maximum, and as its integral over all ages the mean. It ignores how long
 * requests take. A property test compares it with simulations of random loads.
 */
import type { Ages, Settings } from "./simulate.ts";
import type { Change } from "./waiting-records.ts";

type QuotaWindows = Pick<Settings, "perHour" | "hourMs" | "burst" | "burstMs">;

/** A change may be left late at the price of one part of a request. */
const PARTS = [1, 2, 3, 5, 10, 30];

/** Each age that is looked at is this much larger than the one before, ms. */
const FIRST_AGE_MS = 250;
const AGE_STEP = 1.6;

/** Steps by which the place of a quantile between two such ages is narrowed down. */
const NARROW_STEPS = 4;

/** Stretches of each length begin at so many different offsets. */
const OFFSETS = 2;

/** Lengths of stretches for one age; each is this many times the one before. */
const LENGTHS = 4;
const LENGTH_STEP = 3;

/** @param changes in the order of their times. */
export function lowerBound(changes: readonly Change[], quota: QuotaWindows): Ages {
  if (changes.length === 0) return { p50: 0, mean: 0, p99: 0, max: 0 };
  const timelines = new Timelines(changes);
  const found = new Map<number, number>([[0, late(timelines, 0, quota)]]);
  const lateAt = (age: number): number => {
    const known = found.get(age);
    if (known !== undefined) return known;
    const count = late(timelines, age, quota);
    found.set(age, count);
    return count;
  };
  const ages = [0];
  for (let age = FIRST_AGE_MS; lateAt(ages.at(-1) ?? 0) > 0; age *= AGE_STEP) ages.push(age);
  const quantile = (part: number): number =>
    smallestAge(ages, lateAt, changes.length - 1 - Math.floor(part * changes.length));
  const bounds = { p50: quantile(0.5), p99: quantile(0.99), max: smallestAge(ages, lateAt, 0) };
  return { ...bounds, mean: meanOf(found, changes.length) };
}

/** The largest age known to be exceeded by more changes than these. */
function smallestAge(
  ages: readonly number[],
  lateAt: (age: number) => number,
  allowed: number,
): number {
  const above = ages.findIndex((age) => lateAt(age) <= allowed);
  if (above <= 0) return 0;
  let low = ages[above - 1] ?? 0;
  let high = ages[above] ?? low;
  for (let step = 0; step < NARROW_STEPS; step += 1) {
    const middle = (low + high) / 2;
    if (lateAt(middle) <= allowed) high = middle;
    else low = middle;
  }
  return low;
}

/** The mean age is the integral of the share of changes that are older, over all ages. */
function meanOf(found: ReadonlyMap<number, number>, changes: number): number {
  const ages = [...found.keys()].sort((a, b) => a - b);
  let sum = 0;
  let before = 0;
  for (const age of ages) {
    sum += (age - before) * (found.get(age) ?? 0);
    before = age;
  }
  return sum / changes;
}

/** How many changes every schedule leaves older than this age, at least. */
function late(timelines: Timelines, age: number, quota: QuotaWindows): number {
  let most = 0;
  for (const { limit, ms } of stretchesFor(age, timelines.span, quota)) {
    for (let offset = 0; offset < OFFSETS; offset += 1) {
      const stretches = timelines.divide(ms, age, (offset * ms) / OFFSETS, limit);
      if (stretches > 0) most = Math.max(most, timelines.lateIn(stretches, age, limit));
    }
  }
  return most;
}

/** Lengths of time, longer than the age, in which so many requests may start. */
function* stretchesFor(
  age: number,
  span: number,
  { perHour, hourMs, burst, burstMs }: QuotaWindows,
): Generator<{ limit: number; ms: number }> {
  const windows = [
    { limit: burst, ms: burstMs, most: Math.floor(perHour / burst) },
    { limit: perHour, ms: hourMs, most: Math.ceil((span + age) / hourMs) + 1 },
  ];
  for (const { limit, ms, most } of windows) {
    let count = Math.floor(age / ms) + 1;
    for (let n = 0; n < LENGTHS && count <= most; n += 1) {
      yield { limit: limit * count, ms: ms * count };
      count *= LENGTH_STEP;
    }
  }
}

/** All changes, record by record and each record's in their order. */
class Timelines {
  readonly span: number;
  readonly #times: Float64Array;
  /** Where each record's changes begin. */
  readonly #starts: number[] = [];
  /** The times of all changes in their order, and where each change is. */
  readonly #sorted: Float64Array;
  readonly #byTime: Int32Array;
  /** In which stretch each change must be served to be in time; -1: in none that may be too short. */
  readonly #stretchOf: Int32Array;
  readonly #costs: Float64Array;

  constructor(changes: readonly Change[]) {
    const ofRecord = Map.groupBy(changes.keys(), (index) => changes[index]?.record);
    this.#times = new Float64Array(changes.length);
    this.#sorted = Float64Array.from(changes, ({ at }) => at);
    this.#byTime = new Int32Array(changes.length);
    this.#stretchOf = new Int32Array(changes.length);
    this.#costs = new Float64Array(changes.length + 1);
    let place = 0;
    for (const indexes of ofRecord.values()) {
      this.#starts.push(place);
      for (const index of indexes) {
        this.#times[place] = changes[index]?.at ?? 0;
        this.#byTime[index] = place;
        place += 1;
      }
    }
    this.#starts.push(place);
    this.span = (changes.at(-1)?.at ?? 0) - (changes[0]?.at ?? 0);
  }

  /**
   * Cuts time into stretches: the next one begins with the first change after the one before.
   * @returns how many of them hold more changes than requests.
   */
  divide(ms: number, age: number, offset: number, limit: number): number {
    this.#stretchOf.fill(-1);
    const times = this.#sorted;
    let full = 0;
    let from = 0;
    let begin = (times[0] ?? 0) - offset;
    while (from < times.length) {
      const inTime = firstFrom(times, begin + ms - age, from);
      if (inTime - from > limit) {
        for (let n = from; n < inTime; n += 1) this.#stretchOf[this.#byTime[n] ?? 0] = full;
        full += 1;
      }
      from = firstFrom(times, begin + ms, from);
      begin = times[from] ?? 0;
    }
    return full;
  }

  /** How many changes are older than this age in the stretches that were divided last, at least. */
  lateIn(stretches: number, age: number, limit: number): number {
    const most = new Float64Array(stretches);
    for (const parts of PARTS) {
      const costs = this.#costsOf(parts, stretches, age);
      let more = false;
      for (let n = 0; n < stretches; n += 1) {
        const count = (costs[n] ?? 0) - parts * limit;
        if (count <= (most[n] ?? 0)) continue;
        most[n] = count;
        more = true;
      }
      // The best price of a late change lies between two others.
      if (!more) break;
    }
    return most.reduce((sum, count) => sum + count, 0);
  }

  /** For each stretch, the least cost of its changes: `parts` for a request, 1 for a late change. */
  #costsOf(parts: number, stretches: number, age: number): Float64Array {
    const total = new Float64Array(stretches);
    const least = this.#costs;
    for (let record = 0; record + 1 < this.#starts.length; record += 1) {
      const end = this.#starts[record + 1] ?? 0;
      let stretch = -1;
      // The first change that a request at the present one would serve in time.
      let first = 0;
      for (let place = this.#starts[record] ?? 0; place < end; place += 1) {
        const at = this.#times[place] ?? 0;
        const now = this.#stretchOf[place] ?? -1;
        if (now !== stretch) {
          if (stretch >= 0) total[stretch] = (total[stretch] ?? 0) + (least[place] ?? 0);
          stretch = now;
          least[place] = 0;
          first = place;
        }
        if (stretch < 0) continue;
        while ((this.#times[first] ?? at) < at - age) first += 1;
        const skipped = (least[place] ?? 0) + 1;
        least[place + 1] = Math.min(skipped, (least[first] ?? 0) + parts);
      }
      if (stretch >= 0) total[stretch] = (total[stretch] ?? 0) + (least[end] ?? 0);
    }
    return total;
  }
}

/** The first change from `from` on that is not earlier than `at`. */
function firstFrom(times: Float64Array, at: number, from: number): number {
  let low = from;
  let step = 1;
  for (; (times[low + step] ?? at) < at; step *= 2) low += step;
  let high = Math.min(times.length, low + step);
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
