/** How much waits. Pure. */
import { ROLES, type Role } from "../state/heartbeats.ts";
import type { JobCounts, Readings } from "./readings.ts";

/** Everything accepted that is not on the service: records, events of the inbox, records to fetch. */
export function waitingIn({ unsynced, inboxJobs, fetchJobs }: Readings): number {
  return unsynced.live + unsynced.bulk + unfinished(inboxJobs) + unfinished(fetchJobs);
}

/** Jobs of a queue that are not done. */
export const unfinished = (jobs: JobCounts): number =>
  ["wait", "prioritized", "active", "delayed"].reduce((sum, name) => sum + (jobs[name] ?? 0), 0);

/** Roles that changes need, and that no running process has. */
export function missingRoles({ processes }: Readings): Role[] {
  return ROLES.toReversed().filter(
    (role) => role !== "http" && !processes.some(({ roles }) => roles.includes(role)),
  );
}
