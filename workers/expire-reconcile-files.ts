/** Removes what reconciliations have left in DATA_DIR once it is too old to be used: it is personal data. */
import { join } from "node:path";
import { removeLeftOvers } from "../src/reconcile/left-overs.ts";
import { removeOldListings } from "../src/reconcile/old-listings.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

const EVERY_MS = 600_000;

export function expireReconcileFiles(runtime: Runtime): Polling {
  const { config, log } = runtime;
  const dir = join(config.DATA_DIR, "reconcile");
  return startPolling({
    everyMs: EVERY_MS,
    async step() {
      await removeOldListings({ dir, stores: runtime });
      removeLeftOvers(dir);
    },
    onError: (error) => log.warn({ err: error }, "reconcile.list_kept"),
  });
}
