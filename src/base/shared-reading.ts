/** One reading of Redis for all who ask at about the same time. */
import { within } from "./deadline.ts";

/** A reading is reused for this long, so that frequent requests do not load Redis, ms … */
const KEPT_MS = 1000;

/** … and for so many times as long as it took: slow readings then take a small part of the time. */
const KEPT_TIMES = 10;

/** A reading must be there within this time, ms. */
const DEADLINE_MS = 2000;

/** All share one reading, however long it takes: a slow Redis is not asked twice. */
export function sharedReading<T>(
  read: () => Promise<T>,
  deadlineMs: number = DEADLINE_MS,
): () => Promise<T> {
  let last: { readonly until: number; readonly value: T } | undefined;
  let running: Promise<T> | undefined;

  async function readAndKeep(): Promise<T> {
    const began = performance.now();
    const value = await read();
    const now = performance.now();
    last = { until: now + Math.max(KEPT_MS, KEPT_TIMES * (now - began)), value };
    return value;
  }

  async function current(): Promise<T> {
    if (last !== undefined && performance.now() <= last.until) return last.value;
    running ??= readAndKeep().finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => within(deadlineMs, current());
}
