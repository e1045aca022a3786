import type { Job, Queue } from "bullmq";

/** BullMQ writes each step of a job to a stream. Only people look at it, with tools that read its end. */
export const SHORT_STREAMS = { events: { maxLen: 100 } };

type Jobs = Parameters<Queue["addBulk"]>[0];

/**
 * Adds jobs, all or none. A single job needs no transaction; BullMQ's transactions copy every
 * command and script of the client, which made most of the garbage at 500 events a second.
 * @returns their ids; for a duplicate, the id of the job that waits already.
 */
export async function addAll(queue: Queue, jobs: Jobs): Promise<(string | undefined)[]> {
  const [only, ...others] = jobs;
  if (only === undefined) return [];
  const added: Job[] =
    others.length > 0
      ? await queue.addBulk(jobs)
      : [await queue.add(only.name, only.data, only.opts)];
  return added.map(({ id }) => id);
}
