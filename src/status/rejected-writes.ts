import { isQuiet } from "../state/heartbeats.ts";
import { writesRejected } from "../state/redis-health.ts";
import type { Readings } from "./readings.ts";

/** Without writes there are no heartbeats: which processes run is not known. */
export const areProcessesUnknown = (readings: Readings): boolean =>
  whyWritesRejected(readings) !== undefined;

/** Why Redis rejects all writes now, as half a sentence; undefined while it accepts them. */
export function whyWritesRejected({ now, processes, lost, redis }: Readings): string | undefined {
  const certain = writesRejected(redis);
  if (certain !== undefined || redis.savesSucceed) return certain;
  // After a failed save Redis rejects writes if it has save points, which INFO does not tell.
  const known = lost === undefined ? processes : [...processes, lost];
  const isSilent = known.length > 0 && known.every((one) => isQuiet(now, one));
  return isSilent ? "its last RDB save failed, and no process can write its heartbeat" : undefined;
}
