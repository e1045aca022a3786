/** Counts durations in buckets of equal ratio, a quarter of an octave wide: a median is then right to 9 %. */
const PER_OCTAVE = 4;

/** Longer durations are counted in the same bucket as this one, ms. */
const LONGEST_MS = 600_000;

const NAME = /^duration (\d+)$/;

/** The name by which a duration is counted. */
export function durationName(ms: number): string {
  const counted = Math.min(LONGEST_MS, Math.max(1, ms));
  return `duration ${Math.round(PER_OCTAVE * Math.log2(counted))}`;
}

export const isDuration = (name: string): boolean => NAME.test(name);

/** The durations among counts by name, with how often each was counted, shortest first. */
export function durationsIn(
  counts: Readonly<Record<string, number>>,
): { readonly ms: number; readonly count: number }[] {
  return Object.entries(counts)
    .flatMap(([name, count]) => {
      const [, bucket] = NAME.exec(name) ?? [];
      return bucket === undefined ? [] : [{ ms: 2 ** (Number(bucket) / PER_OCTAVE), count }];
    })
    .sort((a, b) => a.ms - b.ms);
}
