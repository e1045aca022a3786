/** What runs have left in DATA_DIR/reconcile: old plans, listings of CRMs, and what a crash has kept from being removed. */
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { PLAN_KEPT_HOURS, type Reconciliations } from "../../core/state/reconciliations.ts";
import { UserError } from "../../base/user-error.ts";
import type { RedisClock } from "../../core/state/redis-clock.ts";
import { ListingFile, type PlanOfListing } from "./listing-file.ts";

/** A listing that was not used is continued, or used, for so long, ms. */
const USABLE_MS = 6 * 3_600_000;

interface KeptListings {
  readonly dir: string;
  readonly stores: {
    readonly clock: Pick<RedisClock, "now">;
    readonly reconciliations: Pick<Reconciliations, "progress">;
  };
}

/** The newest complete listing that no plan was made from. */
export function unusedListing(dir: string, name: string): string | undefined {
  const found = readdirSync(dir).filter(
    (file) => file.startsWith(`${name}-`) && file.endsWith(".sqlite"),
  );
  const paths = found.toSorted().map((one) => join(dir, one));
  return paths.findLast((path) => {
    const { state, plan } = lookInto(path);
    return state === "readable" && plan === undefined;
  });
}

/** Removes listings that no plan needs any more, and those that are too old to be continued. */
export async function removeOldListings({ dir, stores }: KeptListings): Promise<void> {
  const now = stores.clock.now();
  if (!existsSync(dir)) return;
  for (const name of readdirSync(dir)) {
    if (!/^listing-.*\.sqlite$/.test(name)) continue;
    const path = join(dir, name);
    const { state, plan, takenAt = 0 } = lookInto(path);
    if (state === "in_use") continue;
    const progress = plan && (await stores.reconciliations.progress(plan.id));
    const isUsable = now < (plan?.until ?? takenAt + USABLE_MS);
    if (!isUsable || progress?.state === "done")
      for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
  }
}

interface Look {
  readonly state: "readable" | "in_use" | "damaged";
  readonly plan?: PlanOfListing | undefined;
  readonly takenAt?: number | undefined;
}

function lookInto(path: string): Look {
  try {
    const file = new ListingFile(path, NO_SEALING);
    try {
      return { state: "readable", plan: file.plan(), takenAt: file.begin()?.takenAt };
    } finally {
      file.close();
    }
  } catch (error) {
    return { state: error instanceof UserError ? "in_use" : "damaged" };
  }
}

/** For a look at a listing's notes: no record is sealed or opened. */
const NO_SEALING = {
  seal: async (text: string) => text,
  open: async (text: string) => text,
};

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
