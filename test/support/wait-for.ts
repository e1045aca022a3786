import { setTimeout as delay } from "node:timers/promises";

/** Between two looks, ms: the longer the wait, the longer the pause. Looks cost the processor time that tests share. */
const POLL_MS = 20;
const LONGEST_POLL_MS = 100;
const POLL_SHARE = 0.05;

/**
 * Resolves with the first value of `condition` that is neither false nor undefined. At the deadline
 * it rejects and names `what` it waited for. An error of `condition` counts as "not yet"; the last
 * one is the cause of the rejection.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  { deadlineMs = 240_000, what }: { deadlineMs?: number; what: string },
): Promise<Exclude<T, false | undefined>> {
  const started = Date.now();
  const deadline = started + deadlineMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await condition();
      if (value !== false && value !== undefined) return value as Exclude<T, false | undefined>;
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= deadline) {
      throw new Error(`Not within ${deadlineMs} ms: ${what}`, { cause });
    }
    const share = POLL_SHARE * (Date.now() - started);
    await delay(Math.min(LONGEST_POLL_MS, Math.max(POLL_MS, share)));
  }
}

/** A condition for `waitFor`: the number is larger than it was one look before. */
export function grows(read: () => Promise<number>): () => Promise<boolean> {
  let last = Number.POSITIVE_INFINITY;
  return async () => {
    const before = last;
    last = await read();
    return last > before;
  };
}
