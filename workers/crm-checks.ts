/** Checks the CRMs every quarter of an hour; one process does it for all. */
import { checkableCrms, refreshCrmChecks } from "../src/check-crms.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

const EVERY_MS = 900_000;

/** How often it is looked whether a check is due, ms: the mapping of another process may need other fields. */
const LOOK_MS = 30_000;

export function keepCrmsChecked(runtime: Runtime): Polling {
  const { config, mapping, rarely } = runtime;
  return startPolling({
    everyMs: LOOK_MS,
    async step() {
      // Also where this process has no credentials: intake keeps the fields whose type has changed.
      if (checkableCrms(config).length === 0) return void (await runtime.crmChecks.current());
      await refreshCrmChecks(runtime, mapping, EVERY_MS);
    },
    onError: (error) => rarely.warn({ err: error }, "crm.not_checked"),
  });
}
