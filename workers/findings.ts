/**
 * What of the readings keeps changes from moving, or needs a person: one line each, most pressing
 * first. The anchors are sections of docs/runbook.md, which the alerts name as well.
 */
import { durabilityProblems } from "../src/state/redis-health.ts";
import { stopsOf, type Readings } from "./shared-state.ts";

export interface Finding {
  readonly severity: "stopped" | "warning";
  readonly says: string;
  readonly runbook: string;
}

/** Age of a token at which it should be on its way out, days (spec: rotation every 90 days). */
export const TOKEN_OLD_DAYS = 80;

/** Part of its memory at which Redis is nearly full. */
const NEARLY_FULL = 0.9;

/** A change that waits longer than this, although nothing is stopped, is stuck, ms. */
const STUCK_MS = 900_000;

export function findingsOf(
  readings: Readings,
  { tokenAgeDays }: { readonly tokenAgeDays: number | undefined },
): Finding[] {
  const { now, quota, door, unsynced, oldest, warmUp, redis } = readings;
  const found: Finding[] = [];
  const stopped = (runbook: string, says: string) =>
    found.push({ severity: "stopped", says, runbook: `docs/runbook.md#${runbook}` });
  const warning = (runbook: string, says: string) =>
    found.push({ severity: "warning", says, runbook: `docs/runbook.md#${runbook}` });

  if (door?.door === "token") {
    const says = `The service refuses the token (401) since ${clock(door.since)}; next try ${clock(door.nextProbeAt)}, or at once when the token file changes.`;
    stopped("crmsynctokenrefused", says);
  }
  if (door?.door === "address") {
    const says = `The service refuses our address ${door.detail || "(not named)"} (403) since ${clock(door.since)}; next try ${clock(door.nextProbeAt)}.`;
    stopped("crmsyncaddressrefused", says);
  }
  for (const role of ["sync", "intake"] as const) {
    if (readings.processes.some(({ roles }) => roles.includes(role))) continue;
    stopped("crmsyncrolemissing", `No running process plays the role ${role}.`);
  }
  const stops = stopsOf(readings);
  if (stops.has("unavailable")) {
    const says = "The service gives no usable answer; it is tried once per pause.";
    stopped("crmsyncserviceunavailable", says);
  }
  if (quota.until !== undefined) {
    const says = `The service asked us to stop (429) until ${clock(quota.until)}.`;
    stopped("crmsyncthrottled", says);
  }
  const waiting = unsynced.live + unsynced.bulk;
  if (stops.has("warming_up") && waiting > 0) {
    const says = `The ledger is being warmed (${warmUp.relations} relations so far); changes are sent after that.`;
    stopped("the-ledger-is-cold-or-being-warmed", says);
  }
  if (warmUp.state === "cold") {
    const says = "The ledger is cold: listing kept failing, so a change may cost a second request.";
    warning("the-ledger-is-cold-or-being-warmed", says);
  }
  if (quota.remaining === 0 && waiting > 0) {
    const says = `The hour's quota is spent; the next request returns at ${clock(quota.resetAt)}.`;
    warning("crmsyncquotaexhausted", says);
  }
  const since = Math.min(oldest.live ?? now, oldest.bulk ?? now);
  if (found.length === 0 && now - since > STUCK_MS) {
    warning("crmsyncchangestuck", `The oldest change waits since ${clock(since)}.`);
  }
  for (const problem of durabilityProblems(redis))
    warning("crmsyncredisnotdurable", `Redis: ${problem}.`);
  if (redis.limitBytes > 0 && redis.usedBytes > NEARLY_FULL * redis.limitBytes) {
    const says = `Redis uses ${Math.round((100 * redis.usedBytes) / redis.limitBytes)} % of its memory; when it is full no events are taken.`;
    warning("crmsyncredisnearlyfull", says);
  }
  if (readings.deadLetters > 0) {
    const letters = readings.deadLetters === 1 ? "dead letter waits" : "dead letters wait";
    warning(
      "crmsyncdeadletters",
      `${readings.deadLetters} ${letters} for a person: crmsync dead list.`,
    );
  }
  if (tokenAgeDays !== undefined && tokenAgeDays >= TOKEN_OLD_DAYS) {
    const says = `The service token is ${tokenAgeDays} days old; it should be replaced every 90 days.`;
    warning("crmsynctokenold", says);
  }
  return found;
}

/** Seconds matter to nobody here, the zone does. */
const clock = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
