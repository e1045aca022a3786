/** Listings of CRMs that lie in a folder: which can be used, and which must go. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../ops/user-error.ts";
import type { Reconciliations } from "../state/reconciliations.ts";
import type { RedisClock } from "../state/redis-clock.ts";
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
