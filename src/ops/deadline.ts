/** Not in time; what was begun goes on, and its end is ignored. */
export class TooLate extends Error {
  override readonly name = "TooLate";
}

/** @throws TooLate after so many ms. */
export async function within<T>(deadlineMs: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new TooLate(`no answer within ${Math.round(deadlineMs / 100) / 10} s`)),
    deadlineMs,
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A command answers within 3 s, its own start included; one part waits at least this long, ms. */
const ANSWER_MS = 2600;
const LEAST_MS = 1000;

/** How long a command may wait for one thing now, ms. */
export const patienceMs = (): number =>
  Math.round(Math.max(LEAST_MS, ANSWER_MS - performance.now()));
