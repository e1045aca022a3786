/** Looks for jobs of a BullMQ worker whose process died, so that another one takes them. */
import type { Worker } from "bullmq";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** While a process rests, no job is active anywhere, so none can be stalled, ms. */
const REST_MS = 300_000;

/** PTTL of a key that never expires. */
const FOR_EVER = -1;

/**
 * Checks every `everyMs`, until it is closed: before the worker. Not BullMQ's own timer, which cannot rest:
 * its interval is also for how long a check keeps all processes from the next one, so a longer one would
 * outlast the rest, and a process that died in it. The worker is made with `skipStalledCheck`, and with
 * `everyMs` as its interval.
 */
export function checkStalled(
  { redis, rest }: Pick<Runtime, "redis" | "rest">,
  worker: Worker,
  everyMs: number,
): Polling {
  // Private in BullMQ's types alone; its timer does no more.
  const check = worker as unknown as { moveStalledJobsToWait(): Promise<void> };
  const noCheck = worker.toKey("stalled-check");
  return startPolling({
    everyMs,
    rest,
    restMs: REST_MS,
    async step() {
      // A release that let BullMQ's timer rest sets it for 25 days, also while it runs beside this one.
      const forMs = await redis.pttl(noCheck);
      if (forMs > everyMs || forMs === FOR_EVER) await redis.del(noCheck);
      await check.moveStalledJobsToWait();
    },
    onError: (error) => worker.emit("error", error as Error),
  });
}
