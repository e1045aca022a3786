import { setTimeout as delay } from "node:timers/promises";

/** Between two looks, ms: looks cost processor time that tests share, so a look that takes long is rarer. */
const POLL_MS = 20;
const LONGEST_POLL_MS = 500;
/** A pause is this part of the wait so far, or so many times the last look. */
const POLL_SHARE = 0.05;
const POLL_LOOKS = 5;

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
    const looked = Date.now();
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
    const now = Date.now();
    const pause = Math.max(POLL_MS, POLL_SHARE * (now - started), POLL_LOOKS * (now - looked));
    await delay(Math.min(LONGEST_POLL_MS, pause));
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
