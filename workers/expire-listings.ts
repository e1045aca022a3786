/** Removes what CRMs have listed for `reconcile` once no plan can need it: it is personal data. */
import { join } from "node:path";
import { removeOldListings } from "../src/reconcile/old-listings.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

const EVERY_MS = 600_000;

export function expireListings(runtime: Runtime): Polling {
  const { config, log } = runtime;
  return startPolling({
    everyMs: EVERY_MS,
    step: () => removeOldListings({ dir: join(config.DATA_DIR, "reconcile"), stores: runtime }),
    onError: (error) => log.warn({ err: error }, "reconcile.list_kept"),
  });
}
