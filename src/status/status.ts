/** The status document: the JSON of GET /status and of `crmsync status --json`. */
import type { Redis } from "ioredis";
import type { Config } from "../config.ts";
import { DEAD_REASONS } from "../sync/dead-letter.ts";
import { DRIFT_KINDS } from "../sync/drift.ts";
import type { Lane } from "../event/lane.ts";
import type { EmptiedField } from "../sync/emptied.ts";
import { CHANGE_OUTCOMES } from "../sync/outcomes.ts";
import { sumOf } from "../state/outcomes.ts";
import { durabilityProblems } from "../state/redis-health.ts";
import { bulkStatusOf, type BulkStatus } from "./bulk.ts";
import { unfinished, waitingIn } from "./backlog.ts";
import type { Finding } from "./finding.ts";
import { findingsIn } from "./findings.ts";
import { leftOutIn } from "./left-out-findings.ts";
import { takeReadings, type Readings } from "./readings.ts";
import { drainedAt, stopReasonsIn } from "./stops.ts";
import type { Stores } from "./stores.ts";

/** Whether no process is shown because Redis accepts no heartbeats. */
export const areProcessesUnknownIn = ({
  sendingStopped,
}: Pick<Status, "sendingStopped">): boolean => sendingStopped.includes("redis_rejects_writes");

interface LaneBacklog {
  /** Records with a change not yet on the service. */
  readonly records: number;
  readonly oldestAgeSeconds: number;
}

/** Times are ISO 8601 in UTC; null: not known, or none. */
export interface Status {
  readonly at: string;
  readonly version: string;
  readonly processes: readonly {
    readonly id: string;
    readonly version: string;
    readonly roles: readonly string[];
    readonly startedAt: string;
  }[];
  /** What stops or delays changes, or needs a person; the most pressing first. */
  readonly findings: readonly Finding[];
  readonly backlog: {
    readonly live: LaneBacklog;
    readonly bulk: LaneBacklog;
    /** Events that intake has not processed yet. */
    readonly inbox: number;
    /** Records that must be fetched from their CRM first. */
    readonly toFetch: number;
    /** Records that wait for a retry. */
    readonly retrying: number;
    /** null while nothing waits, and while sending is stopped or limited or bulk is paused: the end is unknown. */
    readonly drainedAt: string | null;
  };
  readonly bulk: BulkStatus;
  readonly sendingStopped: readonly string[];
  readonly quota: {
    readonly limit: number;
    readonly remaining: number;
    /** When the next spent request returns, and when all have. */
    readonly nextReturnAt: string;
    readonly allReturnedAt: string;
    readonly pacing: string;
    readonly stoppedUntil: string | null;
  };
  /** Fields that updates of the last hour have emptied. */
  readonly emptied: {
    /** `updated`: relations with a value in the field that were updated; `emptied`: those that lost it. */
    readonly fields: readonly EmptiedField[];
    /** null: unlimited. */
    readonly limit: number | null;
  };
  /** Values of the records of the last hour that the mapping could not use, by field: the service keeps what it has. */
  readonly leftOut: Readonly<Record<string, number>>;
  readonly terminations: {
    /** Changes that wait for a person: terminations, and updates that empty fields. */
    readonly held: number;
    readonly heldSince: string | null;
    /** Relations that were terminated in the last 24 hours without approval. */
    readonly inLast24Hours: number;
    /** null: unlimited. */
    readonly limit: number | null;
  };
  readonly outcomesOfLastHour: Readonly<Record<string, number>>;
  readonly deadLetters: {
    readonly total: number;
    readonly byReason: Record<string, number>;
    /** Those that expire soon. */
    readonly expiring: number;
  };
  /** Whether the service denies us access. */
  readonly denial: {
    readonly state: "none" | "token_denied" | "address_denied";
    readonly since: string | null;
    /** Our address, as the service named it in its 403. */
    readonly address: string | null;
    readonly nextProbeAt: string | null;
  };
  readonly token: { readonly issuedAt: string | null; readonly ageDays: number | null };
  readonly ledger: {
    readonly state: string;
    /** Relations that the last listing has brought so far. */
    readonly relations: number;
    /** Records of which it has a row: of those listed, and of those sent since. */
    readonly rows: number;
  };
  /** What the last `crmsync reconcile` found, and its plan has not repaired. */
  readonly reconciliation: {
    readonly at: string | null;
    readonly records: number;
    readonly equal: number;
    readonly drift: Readonly<Record<string, number>>;
    readonly tookSeconds: number;
    /** The last reconciliations that daemons began, by source: success, stopped or failed. */
    readonly lastRuns: Readonly<Record<string, { readonly at: string; readonly result: string }>>;
    readonly nextRunAt: string | null;
    /** Files in RECONCILE_DIR; null when no process looks at one. */
    readonly folder: { readonly waiting: number; readonly failed: number } | null;
  };
  readonly sources: Readonly<Record<string, { readonly lastEventAt: string }>>;
  /** The CRMs of PULL_FROM. */
  readonly pulls: Readonly<
    Record<
      string,
      {
        /** When the last pull began that has brought all changes. */
        readonly lastPullAt: string | null;
        readonly nextPullAt: string;
        /** Why it has failed since. */
        readonly failure: string | null;
        /** Records listed so far, while all of them are listed. */
        readonly listed: number | null;
        /** Changes of the last hour of which no webhook had told. */
        readonly missedByWebhooks: number;
      }
    >
  >;
  readonly redis: {
    readonly version: string;
    /** How long it took to answer the process that has read this. */
    readonly pingMs: number;
    readonly durable: boolean;
    readonly usedBytes: number;
    readonly limitBytes: number | null;
  };
}

const DAY_MS = 86_400_000;

const iso = (ms: number): string => new Date(ms).toISOString();

/** What stops or delays changes, or needs a person, by these readings. */
export const findingsOf = (readings: Readings, config: Stores["config"]): Finding[] =>
  findingsIn(readings, {
    tokenAgeDays: tokenAgeDays(readings),
    outcomes: sumOf(readings.minutes),
    hourMs: config.QUOTA_HOUR_MS,
  });

const tokenAgeDays = ({ now, tokenIssuedAt }: Readings): number | undefined =>
  tokenIssuedAt === undefined ? undefined : Math.floor((now - tokenIssuedAt) / DAY_MS);

/** @param connection over which Redis is read, if it is not that of the stores. */
export async function readStatus(
  stores: Stores,
  version: string,
  connection?: Redis,
): Promise<Status> {
  return statusOf(await takeReadings(stores, connection), stores.config, version);
}

export function statusOf(readings: Readings, config: Config, version: string): Status {
  const { now, quota, denial, redis, warmUp, inboxJobs, syncJobs } = readings;
  const outcomes = sumOf(readings.minutes);
  const ageDays = tokenAgeDays(readings);
  return {
    at: iso(now),
    version,
    processes: readings.processes.map(({ id, version, roles, startedAt }) => {
      return { id, version, roles, startedAt: iso(startedAt) };
    }),
    findings: findingsOf(readings, config),
    backlog: {
      live: laneOf(readings, "live"),
      bulk: laneOf(readings, "bulk"),
      inbox: unfinished(inboxJobs),
      toFetch: unfinished(readings.fetchJobs),
      retrying: syncJobs["delayed"] ?? 0,
      drainedAt: drainTime(readings),
    },
    bulk: bulkStatusOf(readings, config.QUOTA_LIVE_RESERVE),
    sendingStopped: [...stopReasonsIn(readings)],
    quota: {
      limit: quota.limit,
      remaining: quota.remaining,
      nextReturnAt: iso(quota.resetAt),
      allReturnedAt: iso(quota.allReturnedAt),
      pacing: quota.pacing,
      stoppedUntil: quota.until === undefined ? null : iso(quota.until),
    },
    outcomesOfLastHour: inOrder(CHANGE_OUTCOMES, outcomes),
    deadLetters: {
      total: readings.deadLetters,
      byReason: inOrder(DEAD_REASONS, readings.deadReasons),
      expiring: readings.expiring?.soon ?? 0,
    },
    emptied: emptiedIn(readings),
    leftOut: Object.fromEntries(leftOutIn(outcomes).map(({ field, count }) => [field, count])),
    terminations: terminationsOf(readings),
    denial: {
      state: denial === undefined ? "none" : `${denial.cause}_denied`,
      since: denial === undefined ? null : iso(denial.since),
      address: denial?.address || null,
      nextProbeAt: denial === undefined ? null : iso(denial.nextProbeAt),
    },
    token: {
      issuedAt: config.SERVICE_TOKEN_ISSUED_AT ?? null,
      ageDays: ageDays ?? null,
    },
    ledger: { state: warmUp.state, relations: warmUp.relations, rows: readings.ledgerRows },
    reconciliation: reconciliationOf(readings),
    sources: Object.fromEntries(
      Object.entries(readings.sources).map(([name, at]) => [name, { lastEventAt: iso(at) }]),
    ),
    pulls: pullsOf(readings, outcomes),
    redis: {
      version: redis.version,
      pingMs: Math.round(readings.pingMs * 10) / 10,
      durable: durabilityProblems(redis, readings.isRedisDirGone).length === 0,
      usedBytes: redis.usedBytes,
      limitBytes: redis.limitBytes === 0 ? null : redis.limitBytes,
    },
  };
}

const pullsOf = (
  { pulls }: Readings,
  outcomes: Readonly<Record<string, number>>,
): Status["pulls"] =>
  Object.fromEntries(
    Object.entries(pulls).map(([crm, { at, failure, nextAt, objects }]) => {
      const listed = Object.values(objects).flatMap(({ listing }) => listing?.records ?? []);
      const pull = {
        lastPullAt: at === undefined ? null : iso(at),
        nextPullAt: iso(nextAt),
        failure: failure?.why ?? null,
        listed: listed.length === 0 ? null : listed.reduce((sum, count) => sum + count, 0),
        missedByWebhooks: outcomes[`pull_missed ${crm}`] ?? 0,
      };
      return [crm, pull];
    }),
  );

const emptiedIn = ({ emptied, emptyLimit }: Readings): Status["emptied"] => ({
  fields: emptied,
  limit: emptyLimit === Number.POSITIVE_INFINITY ? null : emptyLimit,
});

function terminationsOf({ terminations }: Readings): Status["terminations"] {
  const { held, heldSince, counted, limit } = terminations;
  return {
    held,
    heldSince: heldSince === undefined ? null : iso(heldSince),
    inLast24Hours: counted,
    limit: limit === Number.POSITIVE_INFINITY ? null : limit,
  };
}

function laneOf({ now, oldest, unsynced }: Readings, lane: Lane): LaneBacklog {
  const since = oldest[lane];
  return {
    records: unsynced[lane],
    oldestAgeSeconds: since === undefined ? 0 : Math.max(0, Math.round((now - since) / 1000)),
  };
}

function drainTime(readings: Readings): string | null {
  const at = waitingIn(readings) === 0 ? undefined : drainedAt(readings);
  return at === undefined ? null : iso(at);
}

/** Every name of the closed set, 0 included, so that readers of the JSON find all of them. */
function inOrder(names: readonly string[], counts: Readonly<Record<string, number>>) {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
}

function reconciliationOf({
  folder,
  reconcileNextAt,
  reconcileRuns,
  reconciliation,
}: Readings): Status["reconciliation"] {
  return {
    at: reconciliation === undefined ? null : iso(reconciliation.at),
    records: reconciliation?.records ?? 0,
    equal: reconciliation?.equal ?? 0,
    drift: inOrder(DRIFT_KINDS, reconciliation?.drift ?? {}),
    tookSeconds: Math.round((reconciliation?.tookMs ?? 0) / 1000),
    lastRuns: Object.fromEntries(
      Object.entries(reconcileRuns).map(([source, { at, result }]) => [
        source,
        { at: iso(at), result },
      ]),
    ),
    nextRunAt: reconcileNextAt === undefined ? null : iso(reconcileNextAt),
    folder: folder ? { waiting: folder.waiting, failed: folder.failed } : null,
  };
}
