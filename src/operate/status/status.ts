/** The status document: the JSON of GET /status and of `crmsync status --json`. */
import type { Config } from "../../base/config.ts";
import { DEAD_REASONS } from "../../core/sync/dead-letter.ts";
import { DRIFT_KINDS } from "../../core/sync/drift.ts";
import type { Lane } from "../../core/event/lane.ts";
import { CHANGE_OUTCOMES } from "../../core/sync/outcomes.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import { durabilityProblems } from "../../core/state/redis-health.ts";
import { bulkStatusOf } from "./bulk.ts";
import { unfinished, waitingIn, sentAt, stopReasonsIn } from "./stops.ts";
import { findingsIn, tokenAgeDays } from "./findings.ts";
import { leftOutIn } from "./change-findings.ts";
import { takeReadings, type Readings } from "./readings.ts";
import type { Stores } from "./stores.ts";

/** Whether no process is shown because Redis accepts no heartbeats. */
export const areProcessesUnknownIn = ({
  sendingStopped,
}: Pick<Status, "sendingStopped">): boolean => sendingStopped.includes("redis_rejects_writes");

/** The document. Times are ISO 8601 in UTC; null: not known, or none. */
export type Status = ReturnType<typeof statusOf>;

const iso = (ms: number): string => new Date(ms).toISOString();

const isoOrNull = (ms: number | undefined): string | null => (ms === undefined ? null : iso(ms));

/** null: unlimited. */
const limitOrNull = (limit: number): number | null => (limit === Infinity ? null : limit);

export async function readStatus(stores: Stores, version: string): Promise<Status> {
  return statusOf(await takeReadings(stores), stores.config, version);
}

export function statusOf(readings: Readings, config: Config, version: string) {
  const { now, quota, denial, redis, terminations, warmUp } = readings;
  const outcomes = sumOf(readings.minutes);
  return {
    at: iso(now),
    version,
    processes: readings.processes.map(({ id, version, roles, startedAt }) => {
      return { id, version, roles, startedAt: iso(startedAt) };
    }),
    /** What stops or delays changes, or needs a person; the most pressing first. */
    findings: findingsIn(readings, config.QUOTA_HOUR_MS),
    backlog: {
      live: laneOf(readings, "live"),
      bulk: laneOf(readings, "bulk"),
      /** Changes of the lane bulk that a plan has still to feed. */
      fromPlan: readings.feeding?.left ?? 0,
      /** Events that intake has not processed yet. */
      inbox: unfinished(readings.inboxJobs),
      /** Records that must be fetched from their CRM first. */
      toFetch: unfinished(readings.fetchJobs),
      /** Records that wait for a retry. */
      retrying: readings.syncJobs["delayed"] ?? 0,
      /** null while nothing waits, and while sending is stopped or limited or bulk is paused: the end is unknown. */
      drainedAt: waitingIn(readings) === 0 ? null : isoOrNull(sentAt(readings)),
    },
    bulk: bulkStatusOf(readings, config.QUOTA_LIVE_RESERVE),
    sendingStopped: [...stopReasonsIn(readings)],
    quota: {
      limit: quota.limit,
      remaining: quota.remaining,
      /** Requests that only the service has counted. */
      foreign: quota.foreign,
      /** When the next spent request returns, and when all have. */
      nextReturnAt: iso(quota.resetAt),
      allReturnedAt: iso(quota.allReturnedAt),
      pacing: quota.pacing,
      stoppedUntil: isoOrNull(quota.until),
    },
    outcomesOfLastHour: inOrder(CHANGE_OUTCOMES, outcomes),
    deadLetters: {
      total: readings.deadLetters,
      byReason: inOrder(DEAD_REASONS, readings.deadReasons),
      /** Those that expire soon. */
      expiring: readings.expiring?.soon ?? 0,
    },
    /**
     * Fields that updates of the last hour have emptied. `updated`: relations with a value in the field that were
     * updated; `emptied`: those that lost it.
     */
    emptied: { fields: readings.emptied, limit: limitOrNull(readings.emptyLimit) },
    /** Values of the records of the last hour that the mapping could not use, by field. */
    leftOut: Object.fromEntries(leftOutIn(outcomes).map(({ field, count }) => [field, count])),
    terminations: {
      /** Changes that wait for a person: terminations, and updates that empty fields. */
      held: terminations.held,
      heldSince: isoOrNull(terminations.heldSince),
      /** Relations that were terminated in the last 24 hours without approval. */
      inLast24Hours: terminations.counted,
      limit: limitOrNull(terminations.limit),
    },
    /** Whether the service denies us access: `none`, `token_denied` or `address_denied`. */
    denial: {
      state: denial === undefined ? "none" : `${denial.cause}_denied`,
      since: isoOrNull(denial?.since),
      /** Our address, as the service named it in its 403. */
      address: denial?.address || null,
      nextProbeAt: isoOrNull(denial && Math.max(now, denial.nextProbeAt)),
    },
    token: {
      issuedAt: config.SERVICE_TOKEN_ISSUED_AT ?? null,
      ageDays: tokenAgeDays(readings) ?? null,
    },
    /**
     * `relations`: those that the last listing has brought so far. `rows`: records of which it has a row, of those
     * listed, and of those sent since.
     */
    ledger: { state: warmUp.state, relations: warmUp.relations, rows: readings.ledgerRows },
    reconciliation: reconciliationOf(readings),
    sources: Object.fromEntries(
      Object.entries(readings.sources).map(([name, at]) => [name, { lastEventAt: iso(at) }]),
    ),
    pulls: pullsOf(readings, outcomes),
    redis: {
      version: redis.version,
      /** How long it took to answer the process that has read this. */
      pingMs: Math.round(readings.pingMs * 10) / 10,
      durable: durabilityProblems(redis, readings.isRedisDirGone).length === 0,
      usedBytes: redis.usedBytes,
      limitBytes: redis.limitBytes === 0 ? null : redis.limitBytes,
    },
  };
}

/** The CRMs of PULL_FROM. */
const pullsOf = ({ pulls }: Readings, outcomes: Readonly<Record<string, number>>) =>
  Object.fromEntries(
    Object.entries(pulls).map(([crm, { at, failure, nextAt, objects }]) => {
      const listed = Object.values(objects).flatMap(({ listing }) => listing?.records ?? []);
      const pull = {
        /** When the last pull began that has brought all changes. */
        lastPullAt: isoOrNull(at),
        nextPullAt: iso(nextAt),
        /** Why it has failed since. */
        failure: failure?.why ?? null,
        /** Records listed so far, while all of them are listed. */
        listed: listed.length === 0 ? null : listed.reduce((sum, count) => sum + count, 0),
        /** Changes of the last hour of which no webhook had told. */
        missedByWebhooks: outcomes[`pull_missed ${crm}`] ?? 0,
      };
      return [crm, pull];
    }),
  );

/** `records`: those with a change that is not on the service. */
function laneOf({ now, oldest, unsynced }: Readings, lane: Lane) {
  const since = oldest[lane] ?? now;
  return {
    records: unsynced[lane],
    oldestAgeSeconds: Math.max(0, Math.round((now - since) / 1000)),
  };
}

/** Every name of the closed set, 0 included, so that readers of the JSON find all of them. */
function inOrder(names: readonly string[], counts: Readonly<Record<string, number>>) {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
}

/** What the last `crmsync reconcile` found, and its plan has not repaired. */
function reconciliationOf({
  comparedExports,
  folder,
  reconcileNextAt,
  reconcileRuns,
  reconciliation,
}: Readings) {
  const runs = Object.entries(reconcileRuns);
  return {
    at: isoOrNull(reconciliation?.at),
    records: reconciliation?.records ?? 0,
    equal: reconciliation?.equal ?? 0,
    drift: inOrder(DRIFT_KINDS, reconciliation?.drift ?? {}),
    tookSeconds: Math.round((reconciliation?.tookMs ?? 0) / 1000),
    /** What differed in the last comparison of each kind of export, and since when it is known. */
    exports: Object.values(comparedExports).map(({ asOf, name, since }) => ({
      name,
      asOf: iso(asOf),
      since: since.map(({ at, count, held }) => ({ at: iso(at), count, held })),
    })),
    /** The last reconciliations that daemons began, by source: success, stopped or failed. */
    lastRuns: Object.fromEntries(
      runs.map(([source, { at, result }]) => [source, { at: iso(at), result }]),
    ),
    nextRunAt: isoOrNull(reconcileNextAt),
    /** Files in RECONCILE_DIR; null when no process looks at one. */
    folder: folder ? { waiting: folder.waiting, failed: folder.failed } : null,
  };
}
