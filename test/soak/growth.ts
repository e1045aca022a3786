/** Compares the last day of a run with an earlier one: what must not grow has not grown. */
import { median, METRICS, type Measured } from "./measure.ts";
import { HOURS_PER_DAY } from "./office-days.ts";

/** The processes reach their usual size in these hours: they are not compared. */
const WARM_UP = 6;

/** By how much a metric may grow: a factor, and an amount in its unit. */
const ALLOWED = {
  rss: { factor: 1.1, amount: 0 },
  files: { factor: 1, amount: 3 },
  keys: { factor: 1.05, amount: 20 },
  redis: { factor: 1.1, amount: 0.5 },
  waiting: { factor: 1.2, amount: 0.05 },
} as const;

export interface Growth {
  readonly metric: (typeof METRICS)[number];
  /** Medians of the first hours and of the last ones. */
  readonly first: number;
  readonly last: number;
  readonly isFlat: boolean;
}

/**
 * Compares the same hours of the first and of the last day; in a run shorter than two days, the
 * halves after the warm-up.
 */
export function growthOf(measured: readonly Measured[]): Growth[] {
  const hours = Math.max(0, ...measured.map(({ hour }) => hour + 1));
  const days = Math.floor(hours / HOURS_PER_DAY);
  const warmUp = Math.min(WARM_UP, Math.floor(hours / 3));
  const within = (from: number, to: number) =>
    measured.filter(({ hour }) => hour >= from && hour < to);
  const lastDay = (days - 1) * HOURS_PER_DAY;
  const [first, last] =
    days >= 2
      ? [within(warmUp, HOURS_PER_DAY), within(lastDay + warmUp, lastDay + HOURS_PER_DAY)]
      : [within(warmUp, (warmUp + hours) / 2), within((warmUp + hours) / 2, hours)];
  return METRICS.map((metric) => {
    const before = median(first.map((hour) => hour[metric]));
    const after = median(last.map((hour) => hour[metric]));
    const { amount, factor } = ALLOWED[metric];
    return { metric, first: before, last: after, isFlat: after <= before * factor + amount };
  });
}
