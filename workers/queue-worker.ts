/** A BullMQ worker of a daemon: what is the same for all queues. */
import { Worker, type Processor, type WorkerOptions } from "bullmq";
import type { LogEvent } from "../src/ops/log-events.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** While a process rests, no job is active anywhere, so none can be stalled, ms. */
const REST_MS = 300_000;

/** PTTL of a key that never expires. */
const FOR_EVER = -1;

/** How often BullMQ takes back a job whose worker died before it gives the job up. */
const MAX_STALLED = 5;

interface OwnOptions extends Omit<WorkerOptions, "connection" | "prefix"> {
  /** Under which errors of the worker are logged. */
  readonly errorEvent: LogEvent;
  /** How often jobs of dead workers are looked for, ms; one found twice in a row is taken back. */
  readonly stalledInterval: number;
}

export interface QueueWorker<Data> {
  readonly worker: Worker<Data>;
  /** To be closed before the worker. */
  readonly checks: Polling;
}

/** @param handle null: the caller takes each job itself. */
export function openQueueWorker<Data>(
  runtime: Runtime,
  queue: string,
  handle: Processor<Data> | null,
  { errorEvent, ...own }: OwnOptions,
): QueueWorker<Data> {
  const { config, metrics, rarely, redis } = runtime;
  const worker = new Worker<Data>(queue, handle, {
    connection: redis,
    prefix: config.QUEUE_PREFIX,
    skipStalledCheck: true,
    maxStalledCount: MAX_STALLED,
    removeOnComplete: { count: 0 },
    ...own,
  });
  worker.on("error", (error) => rarely.warn({ err: error }, errorEvent));
  worker.on("stalled", () => metrics.stalled.inc());
  return { worker, checks: checkStalled(runtime, worker, own.stalledInterval) };
}

/**
 * Looks for jobs of workers whose processes have died, and lets others take them: every `everyMs`, until it is
 * closed. BullMQ's own timer cannot do this: it always checks at the same interval, and after each check BullMQ
 * forbids all processes to check again within that interval. An interval long enough for a rest would also forbid
 * checks after the rest. So the worker is made with `skipStalledCheck`, and with `everyMs` as its interval.
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
