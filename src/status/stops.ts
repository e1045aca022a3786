/** What the readings mean: what holds changes back, how many wait, and until when. Pure. */
import type { StopReason } from "../ops/metrics.ts";
import { isFull } from "../state/redis-health.ts";
import type { Readings } from "./readings.ts";

/** Everything that keeps all changes from being sent now, whatever the quota says. */
export function stopsOf(readings: Readings): ReadonlySet<StopReason> {
  const { quota, denial, outage, warmUp, paused, redis } = readings;
  const stops = new Set<StopReason>();
  if (quota.stopped !== undefined) stops.add(quota.stopped);
  if (denial !== undefined) stops.add(`${denial.cause}_denied`);
  if (outage !== undefined) stops.add("unavailable");
  if (warmUp.state === "new" || warmUp.state === "running") stops.add("warming_up");
  if (paused.length > 0) stops.add("queue_paused");
  if (isFull(redis)) stops.add("redis_full");
  return stops;
}

/** When the backlog will be done, ms; undefined while nobody can tell. */
export function drainedAt(readings: Readings): number | undefined {
  const { now, quota, warmUp, fetchTrouble } = readings;
  const waiting = waitingIn(readings);
  if (waiting === 0) return now;
  const stops = stopsOf(readings);
  const unknown =
    UNTIL_SOMEBODY_ACTS.some((reason) => stops.has(reason)) ||
    (stops.has("warming_up") && warmUp.failure !== undefined) ||
    fetchTrouble !== undefined ||
    missingRoles(readings).length > 0;
  return unknown ? undefined : quota.drainedAt(waiting);
}

/** Stops whose end nobody here can tell. */
const UNTIL_SOMEBODY_ACTS = [
  ...(["token_denied", "address_denied", "unavailable"] as const),
  ...(["queue_paused", "redis_full"] as const),
];

/** Everything accepted that is not on the service: records, events of the inbox, records to be fetched. */
export function waitingIn({ unsynced, inboxJobs, fetchJobs }: Readings): number {
  return unsynced.live + unsynced.bulk + pending(inboxJobs) + pending(fetchJobs);
}

export const pending = (jobs: Readings["inboxJobs"]): number =>
  ["wait", "prioritized", "active", "delayed"].reduce((sum, name) => sum + (jobs[name] ?? 0), 0);

/** Roles without which nothing moves, and which nobody plays. */
export function missingRoles({ processes }: Readings): ("intake" | "sync")[] {
  return (["sync", "intake"] as const).filter(
    (role) => !processes.some(({ roles }) => roles.includes(role)),
  );
}
