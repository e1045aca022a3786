/** One reading of Redis for all who ask at about the same time. */
import { within } from "./deadline.ts";

/** A reading is reused for this long, so that frequent requests do not load Redis, ms. */
const KEPT_MS = 1000;

/** Redis must answer within this time, ms. */
const DEADLINE_MS = 2000;

/** All share one reading, however long it takes: a slow Redis is not asked twice. */
export function sharedReading<T>(read: () => Promise<T>): () => Promise<T> {
  let last: { readonly at: number; readonly value: T } | undefined;
  let running: Promise<T> | undefined;

  async function readAndKeep(): Promise<T> {
    const value = await read();
    last = { at: performance.now(), value };
    return value;
  }

  async function current(): Promise<T> {
    if (last !== undefined && performance.now() - last.at <= KEPT_MS) return last.value;
    running ??= readAndKeep().finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => within(DEADLINE_MS, current());
}
