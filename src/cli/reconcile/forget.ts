/** `crmsync reconcile --forget`: dismisses a comparison. Status and alerts no longer report its differences. */
import { existsSync } from "node:fs";
import { readOne } from "../../ops/redis-reading.ts";
import { UserError } from "../../ops/user-error.ts";
import { planHeader } from "../../reconcile/plan-file.ts";
import { clockTime } from "../../status/clock-time.ts";
import type { Stores } from "../../status/stores.ts";
import { NO_DRIFT } from "../../sync/drift.ts";
import { recordAct } from "../operator.ts";
import { print } from "../output.ts";

/**
 * @param name of the plan's file, its id, or the time of the comparison as --list has it.
 * @throws UserError when it is not known, or its plan was begun.
 */
export async function forgetComparison(stores: Stores, name: string): Promise<void> {
  const { clock, comparisons, reconciliations } = stores;
  const id = existsSync(name) ? (await planHeader(name))?.id : name;
  const all = await comparisons.last(clock.now());
  const found = all.find(({ at, plan }) => plan?.id === id || clockTime(at) === name);
  if (found === undefined) {
    const where = "crmsync reconcile --list has them";
    throw new UserError(`${name} is none of the last comparisons: ${where}`);
  }
  const { at, plan } = found;
  if ((plan && (await reconciliations.progress(plan.id)))?.state === "running") {
    throw new UserError("this plan was begun: crmsync bulk cancel ends it");
  }
  await recordAct(stores, "reconcile.forget", { details: { plan: plan?.id ?? null } });
  await comparisons.dismiss(found);
  const last = await readOne(stores.redis, reconciliations.last());
  if (last?.at === at) {
    await reconciliations.keep({ ...last, drift: NO_DRIFT, leftOutValues: {} });
  }
  print(`the comparison of ${clockTime(at)} is dismissed, and its plan with it`);
}
