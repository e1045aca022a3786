/** How everything stands, for people: the JSON of GET /status and of `crmsync status`. */
import { DEAD_REASONS } from "../sync/dead-letter.ts";
import { CHANGE_OUTCOMES } from "../ops/metrics.ts";
import type { Lane } from "../sync/lane.ts";
import { durabilityProblems } from "../state/redis-health.ts";
import { findingsOf, type Finding } from "./findings.ts";
import { takeReadings, type Readings } from "./readings.ts";
import { drainedAt, pending, stopsOf } from "./stops.ts";
import type { Stores } from "./stores.ts";

interface LaneBacklog {
  /** Records with a change not yet on the service. */
  readonly records: number;
  readonly oldestAgeSeconds: number;
}

/** Times are ISO 8601 in UTC; null: not known, or there is none. */
export interface Status {
  readonly at: string;
  readonly version: string;
  readonly processes: readonly {
    readonly id: string;
    readonly version: string;
    readonly roles: readonly string[];
    readonly startedAt: string;
  }[];
  /** What keeps changes from moving, or needs a person; empty when all is well. */
  readonly findings: readonly Finding[];
  readonly backlog: {
    readonly live: LaneBacklog;
    readonly bulk: LaneBacklog;
    /** Events that intake has not worked on yet. */
    readonly inbox: number;
    /** Records whose CRM has told only that they changed, and which are to be asked of it. */
    readonly toFetch: number;
    /** Records that wait for another try. */
    readonly retrying: number;
    /** null while nothing waits, and while nobody can tell: sending is stopped. */
    readonly drainedAt: string | null;
  };
  readonly sendingStopped: readonly string[];
  readonly quota: {
    readonly limit: number;
    readonly remaining: number;
    /** When the next spent request returns, and when all have. */
    readonly nextReturnAt: string;
    readonly wholeAt: string;
    readonly pacing: string;
    readonly stoppedUntil: string | null;
  };
  readonly outcomesOfLastHour: Readonly<Record<string, number>>;
  readonly deadLetters: { readonly total: number; readonly byReason: Record<string, number> };
  readonly door: {
    readonly state: "open" | "token_denied" | "address_denied";
    readonly since: string | null;
    /** Our address, as the service named it when it refused it. */
    readonly address: string | null;
    readonly nextProbeAt: string | null;
  };
  readonly token: { readonly issuedAt: string | null; readonly ageDays: number | null };
  readonly ledger: { readonly state: string; readonly relations: number };
  readonly sources: Readonly<Record<string, { readonly lastEventAt: string }>>;
  readonly redis: {
    readonly version: string;
    readonly durable: boolean;
    readonly usedBytes: number;
    readonly limitBytes: number | null;
  };
}

const DAY_MS = 86_400_000;

const iso = (ms: number): string => new Date(ms).toISOString();

export async function readStatus(stored: Stores, version: string): Promise<Status> {
  const [readings, outcomes, reasons] = await Promise.all([
    takeReadings(stored),
    stored.outcomes.lastHour(Date.now()),
    stored.deadLetters.reasons(),
  ]);
  const { now, quota, denial, redis, warmUp, inboxJobs, syncJobs } = readings;
  const issuedAt = stored.config.SERVICE_TOKEN_ISSUED_AT;
  const ageDays =
    issuedAt === undefined ? undefined : Math.floor((now - Date.parse(issuedAt)) / DAY_MS);
  return {
    at: iso(now),
    version,
    processes: readings.processes.map(({ id, version, roles, startedAt }) => {
      return { id, version, roles, startedAt: iso(startedAt) };
    }),
    findings: findingsOf(readings, { tokenAgeDays: ageDays, outcomes }),
    backlog: {
      live: laneOf(readings, "live"),
      bulk: laneOf(readings, "bulk"),
      inbox: pending(inboxJobs),
      toFetch: pending(readings.fetchJobs),
      retrying: syncJobs["delayed"] ?? 0,
      drainedAt: doneAt(readings),
    },
    sendingStopped: [...stopsOf(readings)],
    quota: {
      limit: quota.limit,
      remaining: quota.remaining,
      nextReturnAt: iso(quota.resetAt),
      wholeAt: iso(quota.wholeAt),
      pacing: quota.pacing,
      stoppedUntil: quota.until === undefined ? null : iso(quota.until),
    },
    outcomesOfLastHour: inOrder(CHANGE_OUTCOMES, outcomes),
    deadLetters: { total: readings.deadLetters, byReason: inOrder(DEAD_REASONS, reasons) },
    door: {
      state: denial === undefined ? "open" : `${denial.cause}_denied`,
      since: denial === undefined ? null : iso(denial.since),
      address: denial?.address || null,
      nextProbeAt: denial === undefined ? null : iso(denial.nextProbeAt),
    },
    token: { issuedAt: issuedAt ?? null, ageDays: ageDays ?? null },
    ledger: { state: warmUp.state, relations: warmUp.relations },
    sources: Object.fromEntries(
      Object.entries(readings.sources).map(([name, at]) => [name, { lastEventAt: iso(at) }]),
    ),
    redis: {
      version: redis.version,
      durable: durabilityProblems(redis).length === 0,
      usedBytes: redis.usedBytes,
      limitBytes: redis.limitBytes === 0 ? null : redis.limitBytes,
    },
  };
}

function laneOf({ now, oldest, unsynced }: Readings, lane: Lane): LaneBacklog {
  const since = oldest[lane];
  return {
    records: unsynced[lane],
    oldestAgeSeconds: since === undefined ? 0 : Math.max(0, Math.round((now - since) / 1000)),
  };
}

function doneAt(readings: Readings): string | null {
  const at = drainedAt(readings);
  return at === undefined || at === readings.now ? null : iso(at);
}

/** Every name of the closed set, so that who reads the JSON need not care which ones are there. */
function inOrder(names: readonly string[], counts: Readonly<Record<string, number>>) {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
}
