/** What runs have left in DATA_DIR/reconcile: old plans, and what a crash has kept from being removed. */
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { PLAN_KEPT_HOURS } from "../state/reconciliations.ts";

/** A run may continue with what a crash left behind for so long, ms. */
const LEFT_OVER_MS = 7 * 86_400_000;

/** A plan is kept for as long as it is known whether it was used, ms. */
const PLAN_KEPT_MS = PLAN_KEPT_HOURS * 3_600_000;

/** Removes what is too old. */
export function removeLeftOvers(dir: string): void {
  if (!existsSync(dir)) return;
  for (const name of readdirSync(dir)) {
    const isPlan = /^plan-.*\.ndjson$/.test(name);
    if (!isPlan && !/^(work-|stdin-)|\.part$/.test(name)) continue;
    const file = join(dir, name);
    const { mtimeMs = Date.now() } = statSync(file, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs > (isPlan ? PLAN_KEPT_MS : LEFT_OVER_MS))
      rmSync(file, { force: true });
  }
}
