/** Seeded streams of changes: the loads of the chapter "pacing". */
import { createRandom } from "../src/demo/random.ts";
import { HOUR_MS } from "../src/core/service-spec/limits.ts";
import type { Change } from "./waiting-records.ts";

const MINUTE_MS = 60_000;

export interface Load {
  readonly name: string;
  readonly changes: (seed: number) => Change[];
  /** Real processes get it, too. */
  readonly isReplayed?: boolean;
}

/** On these, crmsync is compared with other strategies. */
export const COMPARED: readonly Load[] = [
  { name: "Zipf hour, evenly", changes: (seed) => zipfHour(seed, "evenly") },
  {
    name: "Zipf hour, at random",
    changes: (seed) => zipfHour(seed, "at random"),
    isReplayed: true,
  },
  { name: "storm of 800, then 1/s", changes: storm },
  { name: "500 new at once", changes: () => newAtOnce(500) },
  { name: "1500 new at once", changes: () => newAtOnce(1500) },
  { name: "quiet day, small bursts", changes: quietDay },
];

export const LOADS: readonly Load[] = [
  ...COMPARED,
  { name: "2,000/h Zipf, 3 h", changes: (seed) => stream(seed, { perHour: 2000, hours: 3 }) },
  { name: "3,000/h Zipf, 3 h", changes: (seed) => stream(seed, { perHour: 3000, hours: 3 }) },
  { name: "4,000/h Zipf, 3 h", changes: (seed) => stream(seed, { perHour: 4000, hours: 3 }) },
  { name: "1,100/h Zipf, 3 h", changes: (seed) => stream(seed, { perHour: 1100, hours: 3 }) },
  { name: "2,000/h Zipf(1.4), 2 h", changes: (seed) => stream(seed, { hours: 2, exponent: 1.4 }) },
  {
    name: "2,000/h Zipf(0.8) of 3,000, 2 h",
    changes: (seed) => stream(seed, { hours: 2, exponent: 0.8, records: 3000 }),
  },
  { name: "2,000/h uniform of 300", changes: (seed) => stream(seed, { exponent: 0 }) },
  {
    name: "2,000/h uniform of 1,900",
    changes: (seed) => stream(seed, { exponent: 0, records: 1900 }),
  },
  { name: "office day of 9,000", changes: officeDay },
  { name: "sessions of people, 3 h", changes: sessions },
  { name: "one record each second", changes: () => edits(0) },
  {
    name: "the same within 1,200/h Zipf",
    isReplayed: true,
    changes: (seed) => sorted([...edits(20 * MINUTE_MS), ...stream(seed, { perHour: 1200 })]),
  },
  { name: "half hours of 3,000/h and 300/h", changes: waves },
  {
    name: "20,000 of bulk work within 500/h Zipf, 40 h",
    changes: (seed) => sorted([...stream(seed, { perHour: 500, hours: 40 }), ...bulkLoad()]),
  },
  {
    name: "2,000/h Zipf, 300 new in the middle",
    changes: (seed) =>
      sorted([
        ...stream(seed, { hours: 2 }),
        ...newAtOnce(300).map(({ at, record }) => ({ at: at + HOUR_MS, record: record + 5000 })),
      ]),
  },
];

interface Stream {
  readonly perHour?: number;
  readonly hours?: number;
  readonly records?: number;
  /** The nth record has a weight of 1/n^exponent. */
  readonly exponent?: number;
}

const sorted = (changes: Change[]): Change[] => changes.sort((a, b) => a.at - b.at);

/** 2,000 changes of 300 records in one hour, the nth record with a weight of 1/n^1.1. */
export function zipfHour(seed: number, arrivals: "evenly" | "at random"): Change[] {
  if (arrivals === "at random") return stream(seed, {});
  const record = zipf(300, 1.1, createRandom(seed).next);
  return Array.from({ length: 2000 }, (_, i) => ({
    at: ((i + 0.5) * HOUR_MS) / 2000,
    record: record(),
  }));
}

/** Changes at random times. */
function stream(seed: number, given: Stream): Change[] {
  const { perHour = 2000, hours = 1, records = 300, exponent = 1.1 } = given;
  const random = createRandom(seed).next;
  const record = zipf(records, exponent, random);
  return sorted(
    Array.from({ length: perHour * hours }, () => ({
      at: random() * hours * HOUR_MS,
      record: record(),
    })),
  );
}

/** How many of the changes of a day fall into each of its hours, in parts of their sum. */
const OFFICE_HOURS = [
  0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.8, 3, 9, 14, 16, 13, 6, 9, 15, 16, 13, 8, 3, 1, 0.5, 0.3, 0.2,
  0.2,
];

/** 9,000 changes of 1,000 records in 24 hours, up to 1,100 in an hour. */
function officeDay(seed: number): Change[] {
  const random = createRandom(seed).next;
  const record = zipf(1000, 1.1, random);
  const hour = drawn(OFFICE_HOURS, random);
  return sorted(
    Array.from({ length: 9000 }, () => ({
      at: (hour() + random()) * HOUR_MS,
      record: record(),
    })),
  );
}

/** 420 sessions an hour: one to nine edits of one of 1,500 records, 30 s apart on average. */
function sessions(seed: number): Change[] {
  const random = createRandom(seed).next;
  return sorted(
    Array.from({ length: 3 * 420 }, () => {
      const record = Math.floor(random() * 1500);
      let at = random() * 3 * HOUR_MS;
      return Array.from({ length: 1 + Math.floor(random() * 9) }, () => {
        const change = { at, record };
        at -= Math.log(1 - random()) * 30_000;
        return change;
      });
    }).flat(),
  );
}

/** One record changes each second for ten minutes. */
function edits(from: number): Change[] {
  return Array.from({ length: 600 }, (_, i) => ({ at: from + i * 1000, record: 999_999 }));
}

/** Four hours of 3,000/h and 300/h, half an hour each. */
function waves(seed: number): Change[] {
  const random = createRandom(seed).next;
  const record = zipf(300, 1.1, random);
  const halves = [1500, 150, 1500, 150, 1500, 150, 1500, 150];
  return sorted(
    halves.flatMap((count, half) =>
      Array.from({ length: count }, () => ({
        at: ((half + random()) * HOUR_MS) / 2,
        record: record(),
      })),
    ),
  );
}

/** 800 records in the first minute, then one change per second of 300 other records. */
function storm(seed: number): Change[] {
  const record = zipf(300, 1.1, createRandom(seed).next);
  const first = Array.from({ length: 800 }, (_, i) => ({
    at: (i * MINUTE_MS) / 800,
    record: 1000 + i,
  }));
  const rest = Array.from({ length: 3540 }, (_, i) => ({
    at: MINUTE_MS + i * 1000,
    record: record(),
  }));
  return [...first, ...rest];
}

export function newAtOnce(count: number): Change[] {
  return Array.from({ length: count }, (_, i) => ({ at: i * 2, record: i }));
}

/** An import of 20,000 records in the lane bulk, after half an hour. */
function bulkLoad(): Change[] {
  return newAtOnce(20_000).map(({ at, record }) => ({
    at: at + HOUR_MS / 2,
    record: record + 100_000,
    lane: "bulk",
  }));
}

/** Eight hours with twenty bursts of thirty changes within twenty seconds. */
function quietDay(seed: number): Change[] {
  const random = createRandom(seed).next;
  const changes: Change[] = [];
  for (let burst = 0; burst < 20; burst += 1) {
    const from = random() * 8 * HOUR_MS;
    for (let i = 0; i < 30; i += 1) {
      changes.push({ at: from + random() * 20_000, record: Math.floor(random() * 300) });
    }
  }
  return changes.sort((a, b) => a.at - b.at);
}

/** Draws from 0…count−1; the nth has a weight of 1/n^exponent. */
function zipf(count: number, exponent: number, random: () => number): () => number {
  const weights = Array.from({ length: count }, (_, n) => (n + 1) ** -exponent);
  return drawn(weights, random);
}

/** Draws the number of one of these weights. */
function drawn(weights: readonly number[], random: () => number): () => number {
  const sums: number[] = [];
  for (let n = 0, sum = 0; n < weights.length; n += 1) sums.push((sum += weights[n] ?? 0));
  const total = sums.at(-1) ?? 1;
  return () => {
    const point = random() * total;
    return sums.findIndex((sum) => point < sum);
  };
}
