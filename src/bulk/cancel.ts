/** Drops what waits in the lane bulk and ends the plan that feeds it: for the command and the console. */
import { readOne } from "../ops/redis-reading.ts";
import type { FeedingPlan } from "../state/reconciliations.ts";
import type { Stores } from "../status/stores.ts";

/** What a cancellation would do now. */
export interface CancelView {
  /** The version of a change that is staged now: those that come later are left alone. */
  readonly last: number;
  readonly waiting: number;
  readonly plan: FeedingPlan | undefined;
}

export interface Cancelled {
  readonly dropped: number;
  /** Changes that are under way, and end as they would. */
  readonly busy: number;
  /** The plan that was ended, with what it had left to feed. */
  readonly plan: FeedingPlan | undefined;
}

export async function viewCancel({ keys, reconciliations, redis }: Stores): Promise<CancelView> {
  const [[seconds, micros], plan, waiting] = await Promise.all([
    redis.time(),
    readOne(redis, reconciliations.feeding()),
    redis.zcard(keys.unsynced("bulk")),
  ]);
  return { last: Number(seconds) * 1_000_000 + Number(micros), waiting, plan };
}

/**
 * Does what a view has shown. After a kill in the middle, a new view and a second call do the rest.
 * @param onProgress called with the number of changes that were dropped so far.
 */
export async function cancelBulk(
  stores: Stores,
  { last, plan, waiting }: CancelView,
  { by, onProgress }: { readonly by: string; readonly onProgress?: (dropped: number) => void },
): Promise<Cancelled> {
  const { auditActs, bulkChanges, reconciliations, stateVersion } = stores;
  await stateVersion.require();
  const details = { changes: waiting, plan: plan?.id, left: plan?.left };
  await auditActs.record({ act: "bulk.cancel", by, details });
  // The plan first: nothing more comes from it then.
  const isEnded = plan !== undefined && (await reconciliations.cancel(plan.id));
  let dropped = 0;
  let busy = 0;
  for await (const page of bulkChanges.waiting()) {
    const { busy: left, crmCodes } = await bulkChanges.drop(page, last);
    busy += left;
    dropped += crmCodes.length;
    onProgress?.(dropped);
  }
  return { dropped, busy, plan: isEnded ? plan : undefined };
}
