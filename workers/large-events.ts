/**
 * Handles large events one after the other: while one is handled, it takes several times its size of memory.
 * HTTP intake accepts 1 MiB at most; other clients of BullMQ may add any.
 */
import { MAX_DEPTH } from "../src/event/crm-event.ts";
import { isLargerThan } from "../src/event/size.ts";

/** Characters of an event that is large. */
const LARGE = 256 * 1024;

export interface LargeEvents {
  /** Whether one is handled or waits for its turn. */
  readonly areInWork: boolean;
  /** Handles an event, a large one in its turn. */
  handle(event: unknown, handle: () => Promise<void>): Promise<void>;
}

export function openLargeEvents(): LargeEvents {
  let inWork = 0;
  let last: Promise<unknown> = Promise.resolve();
  return {
    get areInWork() {
      return inWork > 0;
    },
    async handle(event, handle) {
      if (!isLargerThan(LARGE, MAX_DEPTH, event)) return handle();
      inWork += 1;
      const turn = last.then(handle).finally(() => (inWork -= 1));
      last = turn.catch(() => {});
      return turn;
    },
  };
}
