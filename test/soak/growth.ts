/** Compares the last day of a run with an earlier one: what must not grow has not grown. */
import { median, METRICS, type Measured } from "./measure.ts";
import { HOURS_PER_DAY } from "./office-days.ts";

/**
 * In these hours the processes reach their usual size, and each record has changed once, so that its
 * history is there: they are not compared.
 */
const WARM_UP = HOURS_PER_DAY;

const least = (values: readonly number[]): number => Math.min(...values);

/**
 * What is compared, and by how much it may grow: a factor, and an amount in its unit. Redis also holds
 * what waits: the least of a day is what stays.
 */
const ALLOWED = {
  rss: { of: median, factor: 1.1, amount: 0 },
  files: { of: median, factor: 1, amount: 3 },
  keys: { of: least, factor: 1.05, amount: 20 },
  redis: { of: least, factor: 1.1, amount: 0.5 },
  waiting: { of: median, factor: 1.2, amount: 0.05 },
} as const;

export interface Growth {
  readonly metric: (typeof METRICS)[number];
  /** Of the first hours and of the last ones. */
  readonly first: number;
  readonly last: number;
  readonly isFlat: boolean;
}

/**
 * Compares the second day with the last one; in a run shorter than three days, the halves after the
 * warm-up, whose loads differ.
 */
export function growthOf(measured: readonly Measured[]): Growth[] {
  const hours = Math.max(0, ...measured.map(({ hour }) => hour + 1));
  const days = Math.floor(hours / HOURS_PER_DAY);
  const warmUp = Math.min(WARM_UP, Math.floor(hours / 3));
  const within = (from: number, to: number) =>
    measured.filter(({ hour }) => hour >= from && hour < to);
  const lastDay = (days - 1) * HOURS_PER_DAY;
  const [first, last] =
    days >= 3
      ? [within(warmUp, warmUp + HOURS_PER_DAY), within(lastDay, lastDay + HOURS_PER_DAY)]
      : [within(warmUp, (warmUp + hours) / 2), within((warmUp + hours) / 2, hours)];
  return METRICS.map((metric) => {
    const { amount, factor, of } = ALLOWED[metric];
    const before = of(first.map((hour) => hour[metric]));
    const after = of(last.map((hour) => hour[metric]));
    return { metric, first: before, last: after, isFlat: after <= before * factor + amount };
  });
}
