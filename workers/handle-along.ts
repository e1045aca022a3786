/** Handles, beside each job that BullMQ has given to intake, others that wait behind it. */
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { DelayedError, type Job, type Worker } from "bullmq";
import { AlongJobs } from "../src/event/along-jobs.ts";
import type { Runtime } from "./runtime.ts";

/** Most jobs that are taken along with one, and most bytes of their events together. */
export const MOST_ALONG = 24;
const BYTES = 256 * 1024;

/** What BullMQ does with the jobs that it has given out; private in its types alone. */
interface LockManager {
  trackJob(id: string, token: string, since: number, hasSignal: boolean): unknown;
  untrackJob(id: string): void;
}

/**
 * @param handle as the worker's own: a job for which it throws is not ended.
 * @returns a function that handles jobs that wait, and tells how many. It throws when a job cannot be taken,
 *   handled or ended: BullMQ takes that job back once its lock has expired.
 */
export function openAlong(
  { inbox, redis }: Pick<Runtime, "inbox" | "redis">,
  worker: Worker,
  lockMs: number,
  handle: (job: Job, token: string) => Promise<void>,
): () => Promise<number> {
  const along = new AlongJobs(redis, inbox.queue);
  const { lockManager: locks } = worker as unknown as { lockManager: LockManager };

  let turn = Promise.resolve();
  /** Begins a batch after the one before was sent to Redis, which works on that one meanwhile. */
  async function inTurn<T>(begin: () => Promise<T>): Promise<T> {
    const before = turn;
    const { promise, resolve } = Promise.withResolvers<void>();
    turn = promise;
    await before;
    const ends = begin();
    await nextTurn();
    await nextTurn();
    resolve();
    return ends;
  }

  return async () => {
    const token = randomUUID();
    const jobs = await along.take(token, { lockMs, jobs: MOST_ALONG, bytes: BYTES });
    for (const { id = "" } of jobs) locks.trackJob(id, token, Date.now(), false);
    try {
      const ends = await inTurn(() => Promise.allSettled(jobs.map((job) => handle(job, token))));
      const handled = jobs.filter((_, index) => ends[index]?.status === "fulfilled");
      await along.end(handled, token);
      for (const end of ends) {
        if (end.status === "rejected" && !(end.reason instanceof DelayedError)) throw end.reason;
      }
      return jobs.length;
    } finally {
      for (const { id = "" } of jobs) locks.untrackJob(id);
    }
  };
}
