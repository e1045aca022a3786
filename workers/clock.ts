/** Keeps Redis' time known to this process, and tells when Redis' clock is set (src/state/redis-clock.ts). */
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

const MEASURE_MS = 2000;

export const keepClock = ({ clock, log }: Runtime): Polling =>
  startPolling({
    everyMs: MEASURE_MS,
    async step() {
      const stepMs = await clock.measure();
      if (stepMs !== 0) log.warn({ step_ms: stepMs }, "redis.clock_stepped");
    },
  });
