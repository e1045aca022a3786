/** Tells the other processes, and `crmsync status`, that this process runs and what it has done. */
import { hostname } from "node:os";
import { HEARTBEAT_EVERY_MS, type ProcessInfo } from "../src/state/heartbeats.ts";
import { startPolling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** The end of the process does not wait longer for Redis, ms. */
const LEAVE_MS = 500;

export interface Heartbeat {
  close(): Promise<void>;
}

export function startHeartbeat(runtime: Runtime, roles: ReadonlySet<string>): Heartbeat {
  const { heartbeats, redis } = runtime;
  const info: ProcessInfo = {
    id: `${hostname()}:${process.pid}`,
    version: runtime.version,
    roles: [...roles],
    startedAt: Date.now(),
  };
  const addOutcomes = createOutcomeReport(runtime);

  async function beat(): Promise<void> {
    await heartbeats.beat(info, Date.now());
    await addOutcomes();
  }

  // An unreachable Redis is logged by its connections.
  const beating = startPolling({ everyMs: HEARTBEAT_EVERY_MS, step: beat, onError() {} });
  return {
    async close() {
      const closed = beating.close();
      if (redis.status !== "ready") return;
      const left = closed
        .then(beat)
        .then(() => heartbeats.leave(info.id))
        .catch(() => {});
      const late = new Promise((resolve) => {
        setTimeout(resolve, LEAVE_MS).unref();
      });
      await Promise.race([left, late]);
    },
  };
}

/** @returns what adds the outcomes since its last call to the shared counts of the last hour. */
function createOutcomeReport({ metrics, outcomes }: Runtime): () => Promise<void> {
  let reported: ReadonlyMap<string, number> = new Map();
  return async () => {
    const ended = new Map([
      ...(await metrics.endedChanges()),
      ...(await metrics.senderErrors()),
      ...(await metrics.goneRelations()),
    ]);
    const fresh = new Map(
      [...ended]
        .map(([outcome, count]) => [outcome, count - (reported.get(outcome) ?? 0)] as const)
        .filter(([, count]) => count > 0),
    );
    if (fresh.size === 0) return;
    // Before the write: a failed write loses a few counts, and never counts anything twice.
    reported = ended;
    await outcomes.add(fresh, Date.now());
  };
}
