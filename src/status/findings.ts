/**
 * What of the readings keeps changes from moving, or needs a person: one line each, most pressing
 * first. The anchors are sections of docs/runbook.md, which the alerts name as well.
 */
import { durabilityProblems, isFull } from "../state/redis-health.ts";
import type { Readings } from "./readings.ts";
import { missingRoles, waitingIn } from "./stops.ts";

export interface Finding {
  readonly severity: "stopped" | "warning";
  readonly says: string;
  readonly runbook: string;
}

/** What is known beside the readings. */
export interface FoundBeside {
  readonly tokenAgeDays: number | undefined;
  /** `refused <route> <code>` → requests of senders in the last hour; other names are passed over. */
  readonly outcomes: Readonly<Record<string, number>>;
}

/** Age of a token at which it should be on its way out, days (spec: rotation every 90 days). */
export const TOKEN_OLD_DAYS = 80;

/** Part of its memory at which Redis is nearly full. */
const NEARLY_FULL = 0.9;

/** A change that waits longer than this, although nothing is stopped, is stuck, ms. */
const STUCK_MS = 900_000;

/** A source that sent something within a week, and nothing for a day, is silent, ms. */
const SILENT_MS = 86_400_000;
const FORGOTTEN_MS = 7 * SILENT_MS;

/** A process tells of itself every 5 s; one that has not for so long hangs, or was killed, ms. */
const QUIET_MS = 12_000;

export function findingsOf(readings: Readings, beside: FoundBeside): Finding[] {
  const stops = stopsFound(readings);
  const slow = slowdownsFound(readings);
  const stuck = stops.length + slow.length === 0 ? stuckFound(readings) : [];
  return [
    ...stops,
    ...slow,
    ...stuck,
    ...redisFound(readings),
    ...sendersFound(readings, beside),
    ...lettersFound(readings),
    ...tokenFound(beside),
  ];
}

/** Only what holds changes back altogether. */
export function stopsFound(readings: Readings): Finding[] {
  const { denial, quota, outage, warmUp, paused, redis, processes } = readings;
  const found: Finding[] = [];
  const add = (runbook: string, says: string) => found.push(stopped(runbook, says));
  if (isFull(redis)) {
    const says = `Redis is full (${percentUsed(readings)} % of its memory): no events are taken, and nothing is sent.`;
    add("crmsyncredisnearlyfull", says);
  }
  if (processes.length === 0) add("crmsyncdown", "No process of crmsync runs.");
  else {
    for (const role of missingRoles(readings))
      add("crmsyncrolemissing", `No running process plays the role ${role}.`);
  }
  if (paused.length > 0) {
    const says = `Somebody has paused the queue ${paused.join(" and ")} by BullMQ's own means; crmsync never does.`;
    add("crmsyncqueuepaused", says);
  }
  if (denial?.cause === "token") {
    const says = `The service refuses the token (401) since ${clock(denial.since)}; next try ${clock(denial.nextProbeAt)}, or at once when the token file changes.`;
    add("crmsynctokendenied", says);
  }
  if (denial?.cause === "address") {
    const says = `The service refuses our address ${denial.address || "(not named)"} (403) since ${clock(denial.since)}; next try ${clock(denial.nextProbeAt)}.`;
    add("crmsyncaddressdenied", says);
  }
  if (outage !== undefined) {
    const says = `The service gives no usable answer (${outage.reason}) since ${clock(outage.since)}; next try ${clock(outage.nextTryAt)}.`;
    add("crmsyncserviceunavailable", says);
  }
  if (quota.until !== undefined) {
    const foreign =
      quota.remaining > 0
        ? `, although our own count has ${quota.remaining} requests left: another program may use this token`
        : "";
    add(
      "crmsyncthrottled",
      `The service asked us to stop (429) until ${clock(quota.until)}${foreign}.`,
    );
  }
  const isWarming = warmUp.state === "new" || warmUp.state === "running";
  if (isWarming && waitingIn(readings) > 0) {
    const says =
      warmUp.failure === undefined
        ? `The ledger is being warmed (${warmUp.relations} relations so far); changes are sent after that.`
        : `The service cannot be listed (${warmUp.failure}); changes are sent once it can, or after five tries.`;
    add("the-ledger-is-cold-or-being-warmed", says);
  }
  return found;
}

/** What lets changes move slower than they should, or at a higher price. */
function slowdownsFound(readings: Readings): Finding[] {
  const { now, processes, quota, warmUp, fallback, fetchTrouble, fetchJobs } = readings;
  const found: Finding[] = [];
  for (const { id, seenAt } of processes) {
    if (now - seenAt <= QUIET_MS) continue;
    const says = `The process ${id} has not been heard of since ${clock(seenAt)}: it hangs, or was killed.`;
    found.push(warning("crmsyncdown", says));
  }
  if (fetchTrouble !== undefined) {
    const says = `${fetchTrouble.crm} does not give ${fetchJobs["delayed"] ?? 0} of its records (${fetchTrouble.why}); each is asked for again, with growing pauses.`;
    found.push(warning("crmsyncrecordsnotfetched", says));
  }
  if (warmUp.state === "cold") {
    const why = warmUp.failure === undefined ? "" : ` (${warmUp.failure})`;
    const says = `The ledger is cold: listing kept failing${why}, so a change may cost a second request.`;
    found.push(warning("the-ledger-is-cold-or-being-warmed", says));
  }
  if (quota.remaining === 0 && waitingIn(readings) > 0) {
    const says = `The hour's quota is spent; the next request returns at ${clock(quota.resetAt)}.`;
    found.push(warning("crmsyncquotaexhausted", says));
  }
  if (fallback) {
    const says =
      "Requests are spread evenly for a day, since the service answered a 429 that our own count did not foresee: another program may use this token.";
    found.push(warning("crmsyncpacingsteady", says));
  }
  return found;
}

function stuckFound({ now, oldest }: Readings): Finding[] {
  const since = Math.min(oldest.live ?? now, oldest.bulk ?? now);
  if (now - since <= STUCK_MS) return [];
  return [warning("crmsyncchangestuck", `The oldest change waits since ${clock(since)}.`)];
}

function redisFound(readings: Readings): Finding[] {
  const { redis } = readings;
  const found = durabilityProblems(redis).map((problem) =>
    warning("crmsyncredisnotdurable", `Redis: ${problem}.`),
  );
  if (!isFull(redis) && redis.limitBytes > 0 && redis.usedBytes > NEARLY_FULL * redis.limitBytes) {
    const says = `Redis uses ${percentUsed(readings)} % of its memory; when it is full no events are taken.`;
    found.push(warning("crmsyncredisnearlyfull", says));
  }
  return found;
}

function sendersFound({ now, sources }: Readings, { outcomes }: FoundBeside): Finding[] {
  const refused = Object.entries(outcomes).flatMap(([name, count]) => {
    const [, route, code] = /^refused (\w+) (\d+)$/.exec(name) ?? [];
    return code === undefined || count === 0 ? [] : [`${count} on /${route} with ${code}`];
  });
  const silent = Object.entries(sources).filter(
    ([, at]) => now - at > SILENT_MS && now - at < FORGOTTEN_MS,
  );
  return [
    ...(refused.length === 0
      ? []
      : [
          warning(
            "crmsyncsendererrors",
            `Requests of senders were refused in the last hour: ${refused.join(", ")}; their events are not here.`,
          ),
        ]),
    ...silent.map(([name, at]) =>
      warning("crmsyncsourcesilent", `${name} has sent nothing since ${clock(at)}.`),
    ),
  ];
}

function lettersFound({ deadLetters }: Readings): Finding[] {
  if (deadLetters === 0) return [];
  const letters = deadLetters === 1 ? "dead letter waits" : "dead letters wait";
  return [
    warning("crmsyncdeadletters", `${deadLetters} ${letters} for a person: crmsync dead list.`),
  ];
}

function tokenFound({ tokenAgeDays }: FoundBeside): Finding[] {
  if (tokenAgeDays === undefined || tokenAgeDays < TOKEN_OLD_DAYS) return [];
  const says = `The service token is ${tokenAgeDays} days old; it should be replaced every 90 days.`;
  return [warning("crmsynctokenold", says)];
}

const stopped = (runbook: string, says: string): Finding => {
  return { severity: "stopped", says, runbook: `docs/runbook.md#${runbook}` };
};

const warning = (runbook: string, says: string): Finding => {
  return { severity: "warning", says, runbook: `docs/runbook.md#${runbook}` };
};

const percentUsed = ({ redis }: Readings): number =>
  Math.round((100 * redis.usedBytes) / redis.limitBytes);

/** Seconds matter to nobody here, the zone does. */
const clock = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
