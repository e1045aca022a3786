/** Makes the ledger cold when Redis went backwards: its rows say what the service had before. */
import type { ServiceAddress } from "../src/service/open-service.ts";
import type { Role } from "../src/state/heartbeats.ts";
import { noteService } from "./known-service.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** How long rows that are too old may be believed, ms; after a reconnection it is checked at once. */
const CHECK_MS = 1000;

/** @param service of the role sync */
export function watchStateAge(
  runtime: Runtime,
  roles: ReadonlySet<Role>,
  service?: ServiceAddress,
): Polling {
  const { clock, guards, keptFields, ledger, log, mapping, redis, stateAge } = runtime;
  const { settledLately, terminationGuard } = runtime;

  async function check(): Promise<void> {
    if (!(await stateAge.wentBackwards())) return;
    if (roles.has("intake")) await keptFields.adopt(mapping.keeps);
    const rows = await ledger.forgetAll();
    if (service !== undefined) await noteService(runtime, service);
    await terminationGuard.restore();
    const removed = await settledLately.restore();
    await stateAge.note(clock.now());
    log.error({ rows, removed }, "redis.went_backwards");
  }

  const checking = startPolling({ everyMs: CHECK_MS, step: check });
  const onReady = () => void checking.look(0).catch(() => {});
  redis.on("ready", onReady);
  guards.add(checking);
  return {
    async close() {
      redis.off("ready", onReady);
      await checking.close();
    },
  };
}
