/** Lets this process work by the clock that all processes share (src/state/redis-clock.ts). */
import { setTimeout as sleep } from "node:timers/promises";
import { INBOX_QUEUE } from "../src/event/inbox.ts";
import { redisScript, takeTimeFrom } from "../src/ops/redis-script.ts";
import { quotaKeys } from "../src/quota/quota-keys.ts";
import { SYNC_QUEUE } from "../src/state/pointer-queue.ts";
import { FETCH_QUEUE } from "../src/state/thin-events.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/**
 * How long a step of Redis' clock may go unnoticed, ms. A process that rests notices it later, but
 * before it stages or sends anything: until then no lease, pause or order depends on it.
 */
const MEASURE_MS = 1000;

/** A process that has not measured for this long, ms, has rested. If all have, none could notice a step. */
const RARE_MS = 5 * MEASURE_MS;

/** How long the other processes have to confirm the clock, once they are awake, ms. */
const CONFIRMING_MS = 3 * MEASURE_MS;

const QUEUES = [INBOX_QUEUE, SYNC_QUEUE, FETCH_QUEUE];

const SHORTEN_LOCKS = new URL("../src/state/lua/shorten-locks.lua", import.meta.url);

export function keepClock(runtime: Runtime): Polling {
  const { clock, jobNotifier, log, rest } = runtime;
  // BullMQ dates its jobs with Date.now() and compares the dates of other processes with it; it takes
  // no other clock. So Date.now() is the shared clock in a daemon, for the code of crmsync as well.
  Date.now = () => clock.now();
  takeTimeFrom(() => clock.nowIfKnown());
  let measuredAt = Number.NEGATIVE_INFINITY;

  /** Either Redis' clock has stepped, or that of this machine: the other processes know which. */
  async function measure(signal: AbortSignal): Promise<number> {
    const isRare = performance.now() - measuredAt > RARE_MS;
    const stepMs = await clock.measure(isRare);
    measuredAt = performance.now();
    if (stepMs !== undefined) return stepMs;
    await jobNotifier.askToLook();
    await sleep(CONFIRMING_MS, undefined, { signal });
    return clock.measure();
  }

  const measuring = startPolling({
    everyMs: MEASURE_MS,
    rest,
    async step(signal) {
      const stepMs = await measure(signal);
      if (stepMs === 0) return;
      log.warn({ step_ms: Math.round(stepMs) }, "redis.clock_stepped");
      if (stepMs < 0) await shortenLocks(runtime, -stepMs);
    },
  });
  return rest.guard(measuring);
}

/** Redis ends its keys by its own clock: after a step back, a lock would last that much longer. */
async function shortenLocks({ config, keys, redis }: Runtime, backMs: number): Promise<void> {
  const locks = [
    keys.auditOwner,
    keys.notifyLook,
    keys.planOwner,
    keys.probeAsked,
    keys.reconcileOwner,
    keys.resealing,
    keys.schemaConfigAsking,
    keys.sweeping,
    keys.warmUpOwner,
    quotaKeys(config.QUEUE_PREFIX).correcting,
  ];
  const queues = QUEUES.map((name) => `${config.QUEUE_PREFIX}:${name}:`);
  await redisScript(redis, SHORTEN_LOCKS)(locks, [Math.round(backMs), ...queues]);
}
