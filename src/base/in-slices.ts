import { setImmediate } from "node:timers/promises";

/** Items of one slice: a few milliseconds of work. */
const SLICE = 100;

/** Calls `each` for every item in turn, and lets other work of the process run between slices. */
export async function inSlices<T>(
  items: readonly T[],
  each: (item: T, index: number) => void,
): Promise<void> {
  for (const [index, item] of items.entries()) {
    if (index % SLICE === SLICE - 1) await setImmediate();
    each(item, index);
  }
}
