/** Holds the worker of the inbox back while Redis is nearly full: each event that it stages needs more. */
import type { Worker } from "bullmq";
import { MemoryGate } from "../src/state/redis-health.ts";
import { LANES } from "../src/event/lane.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** How often the gate is asked, ms; it asks Redis the more rarely, the more room there is. */
const CHECK_MS = 200;

/** How often the history of records is dated anew while it is left out, ms. */
const LEFT_OUT_MS = 5000;

/**
 * While this many records wait to be sent, sync has enough to do. With fewer, intake goes on although
 * Redis is full: otherwise nothing would ever free a Redis that is full of events.
 */
const ENOUGH_RECORDS = 100;

export function holdIntakeBack(
  runtime: Runtime,
  worker: Pick<Worker, "pause" | "resume">,
): Polling {
  const { clock, history, keys, redis } = runtime;
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
    if (!(await memory.isClosed())) return false;
    const waiting = await Promise.all(LANES.map((lane) => redis.zcard(keys.unsynced(lane))));
    return waiting.reduce((sum, count) => sum + count, 0) >= ENOUGH_RECORDS;
  }

  return startPolling({
    everyMs: CHECK_MS,
    async step() {
      const hold = await mustWait();
      await leaveHistoryOut();
      if (hold === held) return;
      held = hold;
      if (held) await worker.pause(true);
      else await worker.resume();
    },
  });
}
