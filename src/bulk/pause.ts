/** Pauses and resumes the lane bulk, for all processes: for the command and the console. */
import { nowReading, readOne } from "../ops/redis-reading.ts";
import { UserError } from "../ops/user-error.ts";
import type { BulkPause } from "../state/bulk-changes.ts";
import type { Stores } from "../status/stores.ts";

/** Characters of a reason: it is one line of the status. */
const LONGEST_REASON = 200;

export interface PauseRequest {
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
