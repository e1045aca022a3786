/** The ages of changes, from each change to its proof on the service, ms. */
export interface Ages {
  readonly p50: number;
  readonly mean: number;
  readonly p99: number;
  readonly max: number;
}

/** @param ages ms; they are sorted in place. */
export function agesOf(ages: Float64Array): Ages {
  ages.sort();
  const quantile = (part: number): number => ages[Math.floor(part * ages.length)] ?? 0;
  const mean = ages.reduce((sum, age) => sum + age, 0) / Math.max(1, ages.length);
  return { p50: quantile(0.5), mean, p99: quantile(0.99), max: ages.at(-1) ?? 0 };
}
