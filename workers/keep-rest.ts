/** Begins and ends the rest of this process. */
import { redisScript } from "../src/ops/redis-script.ts";
import { LANES } from "../src/sync/lane.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** How often it is checked whether anything waits, ms. */
const CHECK_MS = 5000;

/**
 * How long a BullMQ worker blocks while there is no job, s: a job ends it at once. Below the time after
 * which src/ops/open-redis.ts believes that a server is gone.
 */
export const DRAIN_DELAY_S = 15;

/** Lists and sorted sets of a queue's jobs that are to be done. */
const STATES = {
  lists: ["wait", "active", "paused"],
  sets: ["prioritized", "delayed"],
} as const;

/**
 * Begins the rest of this process, and ends it when something waits: a message about it may have been
 * lost with a connection. Such a change is sent up to 20 s late.
 */
export function keepRest(runtime: Runtime): Polling {
  const { inbox, jobNotifier, keys, pointers, redis, rest, thinEvents } = runtime;
  const waits = redisScript<number>(redis, new URL("../src/state/lua/waits.lua", import.meta.url));
  const queues = [inbox.queue, pointers.queue, thinEvents.queue];
  const of = (states: readonly string[]) =>
    queues.flatMap((queue) => states.map((state) => queue.toKey(state)));
  const lists = of(STATES.lists);
  const sets = [...of(STATES.sets), ...LANES.map((lane) => keys.unsynced(lane)), keys.verify];
  const unlisten = jobNotifier.listen(() => rest.wake());
  const endWaits = rest.onChange((isOn) => {
    if (!isOn) jobNotifier.wake();
  });
  // Another Redis may answer now.
  const onReady = () => rest.wake();
  redis.on("ready", onReady);
  const polling = startPolling({
    everyMs: CHECK_MS,
    rest,
    async step() {
      if (!rest.isOn && !rest.mayBegin) return;
      const isBusy = (await waits([...lists, ...sets], [lists.length])) === 1;
      if (isBusy) rest.wake();
      // Something may have happened while Redis was asked.
      else if (rest.mayBegin) rest.begin();
    },
    // An unreachable Redis is logged by its connections.
    onError: () => rest.wake(),
  });
  return {
    async close() {
      unlisten();
      endWaits();
      redis.off("ready", onReady);
      await polling.close();
    },
  };
}
