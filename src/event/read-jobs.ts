/** Reads the jobs of a queue, without those that another client has written so that BullMQ fails on them. */
import type { Job, JobType, Queue } from "bullmq";

/** Jobs read in one round trip. */
const CHUNK = 200;

/** The jobs in these states, the oldest of each first; a job that ends meanwhile may be missing. */
export async function* readJobs<Data>(
  queue: Queue<Data>,
  states: readonly JobType[],
): AsyncGenerator<Job<Data>> {
  const ids = await queue.getRanges([...states], 0, -1, true);
  for (let from = 0; from < ids.length; from += CHUNK) {
    yield* await readJobsOf(queue, ids.slice(from, from + CHUNK));
  }
}

/** @param ids of one round trip. */
export async function readJobsOf<Data>(
  queue: Queue<Data>,
  ids: readonly string[],
): Promise<Job<Data>[]> {
  const jobs = await Promise.all(ids.map((id) => readJob(queue, id)));
  return jobs.filter((job) => job !== undefined && job !== "unreadable");
}

/** @returns undefined for a job that is gone; `unreadable` for one that no worker can read: the sweep ends it. */
export async function readJob<Data>(
  queue: Queue<Data>,
  id: string,
): Promise<Job<Data> | "unreadable" | undefined> {
  try {
    return await queue.getJob(id);
  } catch (error) {
    // Of JSON.parse, and of BullMQ where the JSON is no object. Redis' errors are others.
    if (error instanceof SyntaxError || error instanceof TypeError) return "unreadable";
    throw error;
  }
}
