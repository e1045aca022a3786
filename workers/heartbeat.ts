/** Tells other processes, and those who ask for the status, that this one is there and what it did. */
import { hostname } from "node:os";
import { HEARTBEAT_EVERY_MS, type ProcessInfo } from "../src/state/heartbeats.ts";
import type { Runtime } from "./runtime.ts";

/** A Redis that is away must not hold up the end of the process, ms. */
const LEAVE_MS = 500;

export interface Heartbeat {
  close(): Promise<void>;
}

export function startHeartbeat(
  runtime: Runtime,
  version: string,
  roles: ReadonlySet<string>,
): Heartbeat {
  const { heartbeats, outcomes, metrics } = runtime;
  const info: ProcessInfo = {
    id: `${hostname()}:${process.pid}`,
    version,
    roles: [...roles],
    startedAt: Date.now(),
  };
  let told: ReadonlyMap<string, number> = new Map();

  async function tell(): Promise<void> {
    await heartbeats.beat(info, Date.now());
    const ended = new Map([...(await metrics.ended()), ...(await metrics.refusals())]);
    const fresh = new Map(
      [...ended]
        .map(([outcome, count]) => [outcome, count - (told.get(outcome) ?? 0)] as const)
        .filter(([, count]) => count > 0),
    );
    if (fresh.size === 0) return;
    // Before it is written: what a failure leaves untold is only a figure to look at.
    told = ended;
    await outcomes.add(fresh, Date.now());
  }

  let telling: Promise<void> | undefined;
  const look = () => {
    // Redis that is away is told of elsewhere; one call waits for it, not one per turn.
    telling ??= tell()
      .catch(() => {})
      .finally(() => {
        telling = undefined;
      });
  };
  look();
  const timer = setInterval(look, HEARTBEAT_EVERY_MS);
  return {
    async close() {
      clearInterval(timer);
      if (runtime.redis.status !== "ready") return;
      const left = tell()
        .then(() => heartbeats.leave(info.id))
        .catch(() => {});
      const late = new Promise((resolve) => {
        setTimeout(resolve, LEAVE_MS).unref();
      });
      await Promise.race([left, late]);
    },
  };
}
