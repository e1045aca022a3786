/** What becomes of begun plans when another snapshot is compared: they end, are kept, or stop the new plan. */
import { crmsync } from "../../base/command.ts";
import { existsSync } from "node:fs";
import { readOne } from "../../base/redis-reading.ts";
import { UserError } from "../../base/user-error.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { planHeader, type PlanHeader } from "./plan-file.ts";

/** What a comparison is of. */
interface Compared {
  /** As comparisons note it. */
  readonly kind: string;
  /** When its snapshot was taken, ms. */
  readonly asOf: number;
}

/**
 * Ends the interrupted plans of older snapshots of this kind: none of them may be continued any more. A plan that is
 * carried out also ends earlier ones of its own snapshot, which could not be continued: it has what they lack.
 * @param plan the one that is carried out: this process has the claim. Without it, nothing ends while another
 *   process may carry one out.
 */
export async function replaceOlderPlans(
  { clock, comparisons, reconciliations, redis }: Stores,
  { kind, asOf }: Compared,
  plan?: Pick<PlanHeader, "madeAt">,
): Promise<void> {
  if (plan === undefined && (await readOne(redis, reconciliations.isFeeding()))) return;
  const madeAt = Date.parse(plan?.madeAt ?? "");
  for (const one of await comparisons.ofKind(kind, clock.now())) {
    const isOlder = one.asOf < asOf || (one.asOf === asOf && one.at < madeAt);
    if (one.plan !== undefined && isOlder) await reconciliations.replace(one.plan.id);
  }
}

/**
 * Whether a plan of an older snapshot of this kind was still carried out after this plan was made. It may have
 * changed what was equal then, and this plan has no entry for that. A cancelled plan does not count: when it
 * was fed last is not known.
 */
export async function hasOlderGoneOn(
  { clock, comparisons, reconciliations }: Stores,
  { madeAt, snapshot: { asOf, kind } }: PlanHeader,
): Promise<boolean> {
  if (kind === undefined) return false;
  const ofKind = await comparisons.ofKind(kind, clock.now());
  const older = ofKind.filter((one) => one.asOf < Date.parse(asOf));
  const plans = await Promise.all(
    older.map(async ({ plan }) => plan && (await reconciliations.progress(plan.id))),
  );
  return plans.some(
    (one) => one !== undefined && one.state !== "cancelled" && one.at > Date.parse(madeAt),
  );
}

/**
 * Keeps a new plan from replacing the file of a plan that was begun, which could then not be continued. A plan
 * that the comparison itself ends may be replaced.
 * @throws UserError
 */
export async function requireNotBegun(
  { reconciliations }: Pick<Stores, "reconciliations">,
  file: string | undefined,
  { kind, asOf }: Compared,
): Promise<void> {
  if (file === undefined || !existsSync(file)) return;
  // What cannot be read as a plan is none.
  const header = await planHeader(file).catch(() => undefined);
  if (header === undefined) return;
  const { snapshot } = header;
  if (snapshot.kind === kind && Date.parse(snapshot.asOf) < asOf) return;
  if ((await reconciliations.progress(header.id))?.state !== "running") return;
  throw new UserError(
    `${file} is a plan of ${header.madeAt} that was begun and is not finished, and it would be written over: name another file by --plan, run the command of that plan again, or end it (${crmsync`bulk cancel`}). Nothing was sent`,
  );
}
