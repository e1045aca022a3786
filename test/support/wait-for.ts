import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 20;

/**
 * Resolves with the first value of `condition` that is neither false nor undefined; rejects with
 * `what` was waited for when the deadline passes. An error of the condition counts as "not yet" and
 * is told at the deadline.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  { deadlineMs = 30_000, what }: { deadlineMs?: number; what: string },
): Promise<Exclude<T, false | undefined>> {
  const deadline = Date.now() + deadlineMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await condition();
      if (value !== false && value !== undefined) return value as Exclude<T, false | undefined>;
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= deadline) {
      throw new Error(`Waited ${deadlineMs} ms in vain: ${what}`, { cause });
    }
    await delay(POLL_MS);
  }
}
