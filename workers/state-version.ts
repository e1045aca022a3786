/** Lets a process work only on a state whose version it knows: at its start, and while it runs. */
import { setTimeout as sleep } from "node:timers/promises";
import { CHECK_EVERY_MS, StateVersionError } from "../src/state/state-version.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/**
 * Resolves once the state has this program's version; while Redis is away, or rejects writes, it waits.
 * @throws StateVersionError
 */
export async function requireState({ rarely, stateVersion }: Runtime): Promise<void> {
  for (;;) {
    try {
      return await stateVersion.require();
    } catch (error) {
      if (error instanceof StateVersionError) throw error;
      rarely.warn({ err: error }, "redis.unreachable");
      await sleep(CHECK_EVERY_MS);
    }
  }
}

/**
 * @param onOther called once, when the state has got another version.
 */
export function watchStateVersion(
  { guards, stateVersion }: Runtime,
  onOther: (error: StateVersionError) => void,
): Polling {
  let tell = onOther;
  const looking = startPolling({
    everyMs: CHECK_EVERY_MS,
    step: () => stateVersion.keep(),
    onError(error) {
      // An unreachable Redis is logged by its connections.
      if (!(error instanceof StateVersionError)) return;
      tell(error);
      tell = () => {};
    },
  });
  return guards.add(looking);
}
