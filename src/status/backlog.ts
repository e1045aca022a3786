/** How much waits. Pure. */
import type { Waiting } from "../quota/pacing.ts";
import { ROLES, type Role } from "../state/heartbeats.ts";
import { QUEUE_STATES, type JobCounts } from "./queue-reading.ts";
import type { Readings } from "./readings.ts";

/** Everything accepted that is not on the service: records, events of the inbox, records to fetch. */
export function waitingIn({ unsynced, inboxJobs, fetchJobs }: Readings): number {
  return unsynced.live + unsynced.bulk + unfinished(inboxJobs) + unfinished(fetchJobs);
}

/** What waits, without the changes that a pause of the lane bulk keeps from being sent. */
export const unpausedIn = (readings: Readings): number =>
  waitingIn(readings) - (readings.bulkPause === undefined ? 0 : readings.unsynced.bulk);

/**
 * The requests that the backlog needs, at least. Before any record is sent, the ledger is listed, and
 * the value lists are requested. Events of the inbox count as live: their lane is not known yet.
 */
export function requestsFor(readings: Readings): Waiting {
  const { unsynced, inboxJobs, fetchJobs, warmUp, valueListsKnown } = readings;
  const isWarming = warmUp.state === "new" || warmUp.state === "running";
  const first = Number(isWarming) + Number(!valueListsKnown);
  const live = first + unsynced.live + unfinished(inboxJobs) + unfinished(fetchJobs);
  return { live, bulk: unsynced.bulk };
}

/** Jobs of a queue that are not done. */
export const unfinished = (jobs: JobCounts): number =>
  QUEUE_STATES.filter((state) => state !== "failed").reduce(
    (sum, state) => sum + (jobs[state] ?? 0),
    0,
  );

/** Roles that changes need, and that no running process has. */
export function missingRoles({ processes }: Readings): Role[] {
  return ROLES.toReversed().filter(
    (role) => role !== "http" && !processes.some(({ roles }) => roles.includes(role)),
  );
}
