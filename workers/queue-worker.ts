/** A BullMQ worker of a daemon: what is the same for all queues. */
import { Worker, type Processor, type WorkerOptions } from "bullmq";
import { MAX_STALLED } from "../src/event/job-data.ts";
import type { LogEvent } from "../src/ops/log-events.ts";
import type { Runtime } from "./runtime.ts";

interface OwnOptions extends Omit<WorkerOptions, "connection" | "prefix"> {
  /** Under which errors of the worker are logged. */
  readonly errorEvent: LogEvent;
  /** How often jobs of dead workers are looked for, ms; one found twice in a row is taken back. */
  readonly stalledInterval: number;
}

/** @param handle null: the caller takes each job itself. */
export function openQueueWorker<Data>(
  { config, metrics, rarely, redis }: Runtime,
  queue: string,
  handle: Processor<Data> | null,
  { errorEvent, ...own }: OwnOptions,
): Worker<Data> {
  const worker = new Worker<Data>(queue, handle, {
    connection: redis,
    prefix: config.QUEUE_PREFIX,
    maxStalledCount: MAX_STALLED,
    removeOnComplete: { count: 0 },
    ...own,
  });
  worker.on("error", (error) => rarely.warn({ err: error }, errorEvent));
  worker.on("stalled", () => metrics.stalled.inc());
  // BullMQ itself starts the timer only of a worker that has a function.
  if (handle === null)
    worker.startStalledCheckTimer().catch((error: unknown) => worker.emit("error", error as Error));
  return worker;
}
