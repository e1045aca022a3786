/** Plans that were begun and not finished, when another comparison comes. */
import { readOne } from "../ops/redis-reading.ts";
import type { Stores } from "../status/stores.ts";

/** What a comparison is of. */
interface Compared {
  /** As comparisons note it. */
  readonly kind: string;
  /** When its snapshot was taken, ms. */
  readonly asOf: number;
}

/** Ends the interrupted plans of older snapshots of this kind: none of them may be continued any more. */
export async function replaceOlderPlans(stores: Stores, { kind, asOf }: Compared): Promise<void> {
  for (const one of await stores.comparisons.ofKind(kind, stores.clock.now())) {
    if (one.plan !== undefined && (one.asOf ?? asOf) < asOf) {
      await replaceUnlessFed(stores, one.plan.id);
    }
  }
}

/** A later plan brings what this one lacks: it is not to be told as interrupted for ever. */
export async function replaceUnlessFed(
  { reconciliations, redis }: Pick<Stores, "reconciliations" | "redis">,
  id: string,
): Promise<void> {
  if (!(await readOne(redis, reconciliations.isFeeding()))) await reconciliations.replace(id);
}
