/** Pauses and resumes the lane bulk, for all processes: for the command and the console. */
import { nowReading, readOne } from "../base/redis-reading.ts";
import { UserError } from "../base/user-error.ts";
import type { BulkPause } from "../core/state/bulk-changes.ts";
import type { Stores } from "../operate/status/stores.ts";
import type { FeedingPlan } from "../core/state/reconciliations.ts";

/** Characters of a reason: it is one line of the status. */
const LONGEST_REASON = 200;

interface PauseRequest {
  /** Who does it, as the audit trail names people. */
  readonly by: string;
  readonly reason?: string | undefined;
}

/** @returns the pause in force, and whether it began now; an earlier one stays as it is. */
export async function pauseBulk(
  { auditActs, bulkPauses, redis, stateVersion }: Stores,
  { by, reason = "" }: PauseRequest,
): Promise<{ readonly pause: BulkPause; readonly begun: boolean }> {
  const words = reason.trim();
  if (words.length > LONGEST_REASON) {
    throw new UserError(`the reason has ${words.length} characters: at most ${LONGEST_REASON}`);
  }
  await stateVersion.require();
  const before = await bulkPauses.current();
  if (before !== undefined) return { pause: before, begun: false };
  const pause = { since: await readOne(redis, nowReading), by, reason: words || undefined };
  await auditActs.record({ act: "bulk.pause", by, details: { reason: pause.reason } });
  const begun = await bulkPauses.begin(pause);
  return { pause: (await bulkPauses.current()) ?? pause, begun };
}

/**
 * @param since of the pause that a person has seen, ms; undefined: of any.
 * @returns the pause that ended; undefined when the lane was not paused.
 * @throws UserError when another pause is in force.
 */
export async function resumeBulk(
  { auditActs, bulkPauses, stateVersion }: Stores,
  { by, since }: { readonly by: string; readonly since?: number },
): Promise<BulkPause | undefined> {
  await stateVersion.require();
  const pause = await bulkPauses.current();
  if (pause === undefined) return undefined;
  if (since !== undefined && Math.trunc(pause.since) !== since) {
    throw new UserError("imports were paused again since the page was made: look again");
  }
  await auditActs.record({ act: "bulk.resume", by });
  await bulkPauses.end();
  return pause;
}

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

export async function viewCancel({ line, reconciliations, redis }: Stores): Promise<CancelView> {
  const [[seconds, micros], plan, counts] = await Promise.all([
    redis.time(),
    readOne(redis, reconciliations.feeding()),
    readOne(redis, line.counts()),
  ]);
  return {
    last: Number(seconds) * 1_000_000 + Number(micros),
    waiting: counts.unsynced.bulk,
    plan,
  };
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
