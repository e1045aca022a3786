/** How many changes waited, and for how long, over time. */
import type { Change } from "./change.ts";

export interface Column {
  /** Where this part of the time begins, ms. */
  readonly from: number;
  /** The most changes that waited at once. */
  readonly waiting: number;
  /** The greatest age that a change of this time reached before it was proven, ms. */
  readonly age: number;
}

export function chartOf(
  changes: readonly Change[],
  settledAt: Float64Array,
  columns: number,
): Column[] {
  const begin = changes[0]?.at ?? 0;
  const end = settledAt.reduce((latest, at) => Math.max(latest, at), begin);
  const ms = Math.max(1, (end - begin) / columns);
  const columnOf = (at: number): number => Math.min(columns - 1, Math.floor((at - begin) / ms));
  const chart = Array.from({ length: columns }, (_, n) => ({
    from: begin + n * ms,
    waiting: 0,
    age: 0,
  }));
  for (const [index, { at }] of changes.entries()) {
    const column = chart[columnOf(at)];
    if (column !== undefined) column.age = Math.max(column.age, (settledAt[index] ?? at) - at);
  }
  const ends = settledAt.toSorted();
  let waiting = 0;
  let ended = 0;
  let reached = 0;
  /** Notes that up to this time `waiting` changes waited. */
  const passed = (at: number): void => {
    const last = columnOf(at);
    for (; reached <= last; reached += 1) {
      const column = chart[reached];
      if (column !== undefined) column.waiting = Math.max(column.waiting, waiting);
    }
    reached = last;
  };
  for (const { at } of changes) {
    for (; (ends[ended] ?? Number.POSITIVE_INFINITY) <= at; ended += 1) {
      passed(ends[ended] ?? at);
      waiting -= 1;
    }
    passed(at);
    waiting += 1;
  }
  for (; ended < ends.length; ended += 1) {
    passed(ends[ended] ?? end);
    waiting -= 1;
  }
  return chart;
}

const BARS = " ▁▂▃▄▅▆▇█";

/** One bar per value, up to the largest of them; anything above 0 is visible. */
export function sparkline(values: readonly number[]): string {
  const most = Math.max(...values);
  const highest = BARS.length - 1;
  return values
    .map((value) => BARS[value > 0 ? Math.max(1, Math.round((value / most) * highest)) : 0])
    .join("");
}
