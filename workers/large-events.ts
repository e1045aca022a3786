/**
 * Handles large events one after the other: to handle one needs several times its size in memory.
 * HTTP intake accepts 1 MiB at most; other clients of BullMQ may add any.
 */
import type { Job } from "bullmq";
import { MAX_DEPTH } from "../src/event/crm-event.ts";
import { redriveOf } from "../src/event/inbox.ts";
import { isLargerThan } from "../src/event/size.ts";
import type { DeadLetters } from "../src/state/dead-letters.ts";

/** An event that has more characters than this is large. */
const LARGE = 256 * 1024;

export interface LargeEvents {
  /** Whether a large event is being handled or waits for its turn. */
  readonly areInWork: boolean;
  /** Handles the event of a job, a large one in its turn. */
  handle(job: Job, handle: () => Promise<void>): Promise<void>;
}

export function openLargeEvents(deadLetters: DeadLetters): LargeEvents {
  let inWork = 0;
  let last: Promise<unknown> = Promise.resolve();
  return {
    get areInWork() {
      return inWork > 0;
    },
    async handle(job, handle) {
      const letterId = redriveOf(job);
      const isLarge =
        letterId === undefined
          ? isLargerThan(LARGE, MAX_DEPTH, job.data)
          : (await deadLetters.lengthOf(letterId)) > LARGE;
      if (!isLarge) return handle();
      inWork += 1;
      const turn = last.then(handle).finally(() => (inWork -= 1));
      last = turn.catch(() => {});
      return turn;
    },
  };
}
