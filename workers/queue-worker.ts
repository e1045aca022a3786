/** A BullMQ worker of a daemon: what is the same for all queues, and what holds that of the inbox back. */
import { Worker, type Processor, type WorkerOptions } from "bullmq";
import { MAX_STALLED } from "../src/core/event/job-data.ts";
import type { LogEvent } from "../src/base/log-events.ts";
import { MemoryGate } from "../src/core/state/redis-health.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";

interface OwnOptions extends Omit<WorkerOptions, "connection" | "prefix"> {
  /** Under which errors of the worker are logged. */
  readonly errorEvent: LogEvent;
  /** How often jobs of dead workers are looked for, ms; one found twice in a row is taken back. */
  readonly stalledInterval: number;
}

export type WorkerParts = Uses<"config" | "metrics" | "rarely" | "redis">;

export function openQueueWorker<Data>(
  { config, metrics, rarely, redis }: WorkerParts,
  queue: string,
  handle: Processor<Data>,
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
  return worker;
}

/** How often the history of records is dated anew while it is left out, ms. */
const LEFT_OUT_MS = 5000;

/**
 * While this many records wait to be sent, sync has enough to do. With fewer, intake goes on although
 * Redis is full: otherwise nothing would ever free a Redis that is full of events.
 */
const ENOUGH_RECORDS = 100;

/**
 * Holds the worker of the inbox back while Redis is nearly full, because each event that it stages needs more, and
 * while the mapping waits for approval.
 */
export function holdIntakeBack(
  {
    clock,
    history,
    line,
    mappingGate,
    redis,
  }: Uses<"clock" | "history" | "line" | "mappingGate" | "redis">,
  worker: Pick<Worker, "pause" | "resume">,
): Step {
  const memory = new MemoryGate(redis);
  let held = false;
  let datedAt = Number.NEGATIVE_INFINITY;

  /** What only people look at is left out first. */
  async function leaveHistoryOut(): Promise<void> {
    history.leaveOut(memory.isTight);
    if (!memory.isTight || performance.now() - datedAt < LEFT_OUT_MS) return;
    datedAt = performance.now();
    await history.keepSince(clock.now());
  }

  async function mustWait(): Promise<boolean> {
    if (!(await mappingGate.isOpen())) return true;
    if (!(await memory.isClosed())) return false;
    return (await line.size()) >= ENOUGH_RECORDS;
  }

  return async () => {
    const hold = await mustWait();
    await leaveHistoryOut();
    if (hold === held) return;
    held = hold;
    if (held) await worker.pause(true);
    else await worker.resume();
  };
}
