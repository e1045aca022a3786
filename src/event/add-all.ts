import type { Job, Queue } from "bullmq";

type Jobs = Parameters<Queue["addBulk"]>[0];

/**
 * Adds jobs, all or none. A single one goes without BullMQ's transaction, which makes a copy of
 * every command and script of the client: at 500 events a second most garbage came from there.
 * @returns their ids; one whose deduplication id waits already has the id of what waits.
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
