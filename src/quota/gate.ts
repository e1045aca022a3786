/**
 * The limiter of this process, which every request goes through: two chained Bottlenecks, of the burst
 * and of the hour, as the service's limits say. They serve live calls before bulk ones, one at a time.
 * Other processes and sliding windows are the sliding log's part: docs/adr/0002.
 */
import Bottleneck from "bottleneck";

export interface GateOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
}

/** Lower ones first. A bulk call that made way for a live one goes before the other bulk calls. */
export const PRIORITY = { live: 3, returned: 5, bulk: 7 } as const;

/** Bottleneck looks this often whether a window is over: at least so many times in each, ms. */
const HEARTBEAT_MS = 250;
const HEARTBEATS = 20;

/** The windows of which a job gives its part back, since it sent nothing that counts in them. */
export type Windows = "both" | "hour";

export type Gate = ReturnType<typeof createGate>;

export function createGate({ perHour, hourMs, burst, burstMs }: GateOptions) {
  const openPair = (hourly: number, inBurst: number) => {
    const hour = new Bottleneck(reservoirOf(hourly, hourMs));
    const bursts = new Bottleneck({ ...reservoirOf(inBurst, burstMs), maxConcurrent: 1 });
    bursts.chain(hour);
    return { hour, bursts, limits: `${hourly} ${inBurst}` };
  };
  let pair = openPair(perHour, burst);
  const closePair = async ({ hour, bursts }: typeof pair) => {
    await hour.disconnect(false);
    await bursts.disconnect(false);
  };
  return {
    /** Runs the job when its turn has come. */
    pass: (priority: number, job: () => Promise<void>): Promise<void> =>
      pair.bursts.schedule({ priority }, job),

    async giveBack(windows: Windows): Promise<void> {
      await pair.hour.incrementReservoir(1);
      if (windows === "both") await pair.bursts.incrementReservoir(1);
    },

    /**
     * Takes other limits: those of a daemon hold for all processes. In a new pair, because
     * `updateSettings` ends the refreshing of a local reservoir (Bottleneck 2.19.5). The calls that wait
     * in the former pair pass at once: the sliding log is exact.
     */
    async follow(hourly: number, inBurst: number): Promise<void> {
      if (pair.limits === `${hourly} ${inBurst}`) return;
      const former = pair;
      pair = openPair(hourly, inBurst);
      await closePair(former);
      await former.hour.incrementReservoir(Number.MAX_SAFE_INTEGER);
      await former.bursts.incrementReservoir(Number.MAX_SAFE_INTEGER);
    },

    close: (): Promise<void> => closePair(pair),
  };
}

const reservoirOf = (limit: number, windowMs: number) => ({
  reservoir: limit,
  reservoirRefreshAmount: limit,
  reservoirRefreshInterval: windowMs,
  heartbeatInterval: Math.min(HEARTBEAT_MS, windowMs / HEARTBEATS),
});
