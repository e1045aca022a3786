/** Lets this process work by the clock that all processes share (src/state/redis-clock.ts). */
import { INBOX_QUEUE } from "../src/event/inbox.ts";
import { redisScript, takeTimeFrom } from "../src/ops/redis-script.ts";
import { SYNC_QUEUE } from "../src/state/pointer-queue.ts";
import { FETCH_QUEUE } from "../src/state/thin-events.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";
import { SWEEP_QUEUE } from "./sweep.ts";

/** How long a step of Redis' clock may go unnoticed, ms. */
const MEASURE_MS = 1000;

const QUEUES = [INBOX_QUEUE, SYNC_QUEUE, FETCH_QUEUE, SWEEP_QUEUE];

const SHORTEN_LOCKS = new URL("../src/state/lua/shorten-locks.lua", import.meta.url);

export function keepClock(runtime: Runtime): Polling {
  const { clock, log } = runtime;
  // BullMQ dates its jobs with Date.now() and compares the dates of other processes with it; it takes
  // no other clock. So Date.now() is the shared clock in a daemon, for the code of crmsync as well.
  Date.now = () => clock.now();
  takeTimeFrom(() => clock.nowIfKnown());
  return startPolling({
    everyMs: MEASURE_MS,
    async step() {
      const stepMs = await clock.measure();
      if (stepMs === 0) return;
      log.warn({ step_ms: Math.round(stepMs) }, "redis.clock_stepped");
      if (stepMs < 0) await shortenLocks(runtime, -stepMs);
    },
    // An unreachable Redis is logged by its connections.
    onError() {},
  });
}

/** Redis ends its keys by its own clock: after a step back, a lock would last that much longer. */
async function shortenLocks({ config, keys, redis }: Runtime, backMs: number): Promise<void> {
  const locks = [keys.warmUpOwner, keys.schemaConfigAsking, keys.probeAsked, keys.auditOwner];
  locks.push(keys.planOwner, keys.reconcileOwner);
  const queues = QUEUES.map((name) => `${config.QUEUE_PREFIX}:${name}:`);
  await redisScript(redis, SHORTEN_LOCKS)(locks, [Math.round(backMs), ...queues]);
}
