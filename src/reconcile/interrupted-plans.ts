/** Plans that were begun and not finished, when another comparison comes: they end, or are kept from it. */
import { existsSync } from "node:fs";
import { readOne } from "../ops/redis-reading.ts";
import { UserError } from "../ops/user-error.ts";
import type { Stores } from "../status/stores.ts";
import { planHeader } from "./plan-file.ts";

/** What a comparison is of. */
interface Compared {
  /** As comparisons note it. */
  readonly kind: string;
  /** When its snapshot was taken, ms. */
  readonly asOf: number;
}

/**
 * Ends the interrupted plans of older snapshots of this kind: none of them may be continued any more.
 * @param hasClaim no other process carries out a plan. Without it nothing ends while one may do so.
 */
export async function replaceOlderPlans(
  { clock, comparisons, reconciliations, redis }: Stores,
  { kind, asOf }: Compared,
  { hasClaim }: { readonly hasClaim: boolean },
): Promise<void> {
  if (!hasClaim && (await readOne(redis, reconciliations.isFeeding()))) return;
  for (const one of await comparisons.ofKind(kind, clock.now())) {
    const isOlder = (one.asOf ?? asOf) < asOf;
    if (one.plan !== undefined && isOlder) await reconciliations.replace(one.plan.id);
  }
}

/**
 * Keeps a new plan from replacing the file of one that was begun, which could then not be continued. One that the
 * comparison itself ends may be replaced.
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
    `${file} is a plan of ${header.madeAt} that was begun and is not finished, and it would be written over: name another file by --plan, run the command of that plan again, or end it (crmsync bulk cancel). Nothing was sent`,
  );
}
