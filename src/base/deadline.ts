/** The deadline has passed. The work goes on, and its result is ignored. */
export class TooLate extends Error {
  override readonly name = "TooLate";
}

/** @throws TooLate when the work takes longer than the deadline. */
export async function within<T>(deadlineMs: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const reject = () =>
    late.reject(new TooLate(`no answer within ${Math.round(deadlineMs / 100) / 10} s`));
  // On a busy machine the answer may be there, and not read yet: timers come first.
  const timer = setTimeout(() => setImmediate(reject), deadlineMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** `status` and `doctor` answer within 3 s, their own start included. */
const ANSWER_MS = 2600;

/** Each part of them may wait at least this long, ms: on a busy machine as long as the start of this process took. */
const LEAST_MS = Math.min(5000, Math.max(1000, performance.now()));

/** How long they may wait for one thing now, ms. */
export const patienceMs = (): number =>
  Math.round(Math.max(LEAST_MS, ANSWER_MS - performance.now()));
