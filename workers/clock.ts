/** Keeps this process's view of Redis' clock current. */
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** A machine's clock drifts by less than a millisecond in this time, ms. */
const MEASURE_MS = 5000;

export function keepClock({ clock }: Runtime): Polling {
  // An unreachable Redis is logged by its connections.
  return startPolling({ everyMs: MEASURE_MS, step: () => clock.measure(), onError() {} });
}
