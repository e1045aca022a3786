/**
 * What a process must know of the state in Redis before it works on it, and while it does: its version, its age,
 * and Redis' time (src/core/state/redis-clock.ts).
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import { StateVersionError } from "../src/core/state/state-version.ts";
import type { Step } from "./chores.ts";
import { noteService } from "./known-service.ts";
import type { Uses } from "./parts.ts";

/** Pause between two tries to read the version, ms. */
const AGAIN_MS = 1000;

/**
 * Resolves once the state has this program's version; while Redis is away, or rejects writes, it waits.
 * @throws StateVersionError
 */
export async function requireState({
  rarely,
  stateVersion,
}: Uses<"rarely" | "stateVersion">): Promise<void> {
  for (;;) {
    try {
      return await stateVersion.require();
    } catch (error) {
      if (error instanceof StateVersionError) throw error;
      rarely.warn({ err: error }, "redis.unreachable");
      await sleep(AGAIN_MS);
    }
  }
}

/** @param onOther called once, when the state has got another version. */
export function checkVersion(
  { stateVersion }: Uses<"stateVersion">,
  onOther: (error: StateVersionError) => void,
): Step {
  let tell = onOther;
  return async () => {
    try {
      await stateVersion.keep();
    } catch (error) {
      if (error instanceof StateVersionError) {
        tell(error);
        tell = () => {};
      }
      throw error;
    }
  };
}

export const measureClock =
  ({ clock, log }: Uses<"clock" | "log">): Step =>
  async () => {
    const stepMs = await clock.measure();
    if (stepMs !== 0) log.warn({ step_ms: stepMs }, "redis.clock_stepped");
  };

type AgeParts = Uses<
  | "clock"
  | "keptFields"
  | "knownService"
  | "ledger"
  | "log"
  | "mapping"
  | "mappingGate"
  | "redis"
  | "settledLately"
  | "stateAge"
  | "tenant"
  | "terminationGuard"
>;

/**
 * Makes the ledger cold when Redis went backwards: its rows say what the service had before.
 * @param service of the role sync
 */
export function checkAge(parts: AgeParts, isIntake: boolean, service?: ServiceAddress) {
  const { clock, keptFields, ledger, log, mapping, mappingGate, redis } = parts;
  const { settledLately, stateAge, terminationGuard } = parts;
  return {
    async run() {
      if (!(await stateAge.wentBackwards())) return;
      if (isIntake && (await mappingGate.isOpen())) await keptFields.adopt(mapping.keeps);
      const rows = await ledger.forgetAll();
      if (service !== undefined) await noteService(parts, service);
      await terminationGuard.restore();
      const removed = await settledLately.restore();
      await stateAge.note(clock.now());
      log.error({ rows, removed }, "redis.went_backwards");
    },
    /** After a reconnection, another Redis may answer. */
    wakes(now: () => void) {
      redis.on("ready", now);
      return () => redis.off("ready", now);
    },
  };
}
