/** Seeded streams of changes: the loads of the chapter "pacing". */
import { createRandom } from "../src/demo/random.ts";
import { HOUR_MS } from "../src/service-spec/limits.ts";
import type { Change } from "../src/simulate/change.ts";

const MINUTE_MS = 60_000;

export interface Load {
  readonly name: string;
  readonly changes: (seed: number) => Change[];
}

export const LOADS: readonly Load[] = [
  { name: "Zipf hour, evenly", changes: (seed) => zipfHour(seed, "evenly") },
  { name: "Zipf hour, at random", changes: (seed) => zipfHour(seed, "at random") },
  { name: "storm of 800, then 1/s", changes: storm },
  { name: "500 new at once", changes: () => newAtOnce(500) },
  { name: "1500 new at once", changes: () => newAtOnce(1500) },
  { name: "quiet day, small bursts", changes: quietDay },
];

/** 2,000 changes of 300 records in one hour, the nth record with a weight of 1/n^1.1. */
export function zipfHour(seed: number, arrivals: "evenly" | "at random"): Change[] {
  const random = createRandom(seed).next;
  const record = zipf(300, 1.1, random);
  const count = 2000;
  const changes = Array.from({ length: count }, (_, i) => ({
    at: arrivals === "evenly" ? ((i + 0.5) * HOUR_MS) / count : random() * HOUR_MS,
    record: record(),
  }));
  return changes.sort((a, b) => a.at - b.at);
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
  const sums: number[] = [];
  for (let n = 1, sum = 0; n <= count; n += 1) sums.push((sum += 1 / n ** exponent));
  const total = sums.at(-1) ?? 1;
  return () => {
    const drawn = random() * total;
    return sums.findIndex((sum) => drawn < sum);
  };
}
