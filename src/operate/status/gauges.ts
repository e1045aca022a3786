/**
 * The gauges of shared state, one row each. They are read from Redis at each scrape and so equal in
 * every process: take their max over processes, never their sum. A gauge whose value is not known
 * now (Redis is away, the end of a stop is unknown) has no sample: an old value would be wrong.
 */
import { Gauge, type Registry } from "prom-client";
import { INBOX_QUEUE } from "../../core/event/inbox.ts";
import { ROLES } from "../../core/state/heartbeats.ts";
import { durabilityProblems } from "../../core/state/redis-health.ts";
import { FETCH_QUEUE } from "../../core/state/thin-events.ts";
import { RUN_RESULTS, RUN_SOURCES } from "../../core/state/reconcile-runs.ts";
import { DRIFT_KINDS } from "../../core/sync/drift.ts";
import { LANES, type Lane } from "../../core/event/lane.ts";
import { MAX_SOURCES } from "../../core/state/sources.ts";
import { DENIAL_CAUSES } from "../../core/sync/outcomes.ts";
import { unusuallyEmptied, completeAt, overduePulls, nextRunAt } from "./change-findings.ts";
import { QUEUE_STATES } from "./queue-reading.ts";
import type { Readings, TimelyReadings } from "./readings.ts";
import { areProcessesUnknown } from "./process-findings.ts";
import { clockAheadNow, silentAfter } from "./senders.ts";
import { bulkPending, sentAt, STOP_REASONS, stopReasonsIn, waitingIn } from "./stops.ts";
import { expose, type MetricsFormat } from "../../base/exposition.ts";
import type { Metrics } from "./metrics.ts";

/** `fallback`: steady pacing that was not configured, after an unexplained 429. */
const PACINGS = ["burst", "steady", "fallback"] as const;

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number];

interface SharedGauge {
  readonly help: string;
  readonly labels?: readonly string[];
  /** A number for a gauge without labels; undefined: not known now. */
  read(readings: Readings): number | undefined | readonly Sample[];
}

/** By their names, without the prefix `crmsync_`. */
const GAUGES: Readonly<Record<string, SharedGauge>> = {
  queue_jobs: {
    help: "Jobs in each queue, by state; of the queue sync: records in the line that may be sent (wait), are being sent (active), and wait for a retry (delayed).",
    labels: ["queue", "state"],
    read: ({ inboxJobs, syncJobs, fetchJobs }) =>
      Object.entries({
        [INBOX_QUEUE]: inboxJobs,
        sync: syncJobs,
        [FETCH_QUEUE]: fetchJobs,
      }).flatMap(([queue, jobs]) =>
        QUEUE_STATES.map((state): Sample => [{ queue, state }, jobs[state] ?? 0]),
      ),
  },
  oldest_unsynced_age_seconds: {
    help: "Age of the oldest change that is not yet on the service; 0 when there is none.",
    labels: ["lane"],
    read: ({ now, oldest }) => byLane((lane) => ageSeconds(now, oldest[lane])),
  },
  unsynced_records: {
    help: "Records with a change that is not yet on the service.",
    labels: ["lane"],
    read: ({ unsynced }) => byLane((lane) => unsynced[lane]),
  },
  bulk_pending: {
    help: "Changes of the lane bulk that are not on the service: those that wait, and those that a plan of a comparison has still to feed.",
    read: bulkPending,
  },
  bulk_paused: {
    help: "1 while an operator has paused the lane bulk.",
    read: ({ bulkPause }) => (bulkPause === undefined ? 0 : 1),
  },
  held_terminations: {
    help: "Changes that wait for a person: terminations beyond TERMINATE_LIMIT or of a record that did not write the relation, and updates beyond EMPTY_LIMIT.",
    read: ({ terminations }) => terminations.held,
  },
  emptied_relations: {
    help: "Relations of which updates of the last hour empty this field; no sample of a field that none has emptied.",
    labels: ["field"],
    read: ({ emptied }) => emptied.map((one): Sample => [{ field: one.field }, one.emptied]),
  },
  unusually_emptied_fields: {
    help: "Fields that more relations lose within an hour than EMPTY_LIMIT allows.",
    read: (readings) => unusuallyEmptied(readings).length,
  },
  pull_last_success_timestamp_seconds: {
    help: "When the last pull of a CRM began that has brought all its changes; before the first one, when it was first tried.",
    labels: ["crm"],
    read: ({ pulls }) =>
      Object.entries(pulls).map(([crm, state]): Sample => [{ crm }, completeAt(state) / 1000]),
  },
  pulls_overdue: {
    help: "CRMs of PULL_FROM that have not told their changes for three intervals and ten minutes.",
    read: (readings) => overduePulls(readings).length,
  },
  dead_letters: {
    help: "Changes that wait for a person.",
    read: ({ deadLetters }) => deadLetters,
  },
  dead_letters_expiring: {
    help: "Dead letters that are deleted within three days, or within half of DEAD_LETTER_DAYS if that is less.",
    read: ({ expiring }) => expiring?.soon ?? 0,
  },
  quota_limit: {
    help: "Requests allowed in one hour window.",
    read: ({ quota }) => quota.limit,
  },
  quota_remaining: {
    help: "Requests that may still start now in this hour window.",
    read: ({ quota }) => quota.remaining,
  },
  quota_reset_timestamp_seconds: {
    help: "When the next spent request of the hour returns.",
    read: ({ quota }) => quota.resetAt / 1000,
  },
  quota_pacing: {
    help: "1 for the current pacing; fallback: steady after an unexplained 429.",
    labels: ["mode"],
    read: ({ fallback, quota }) => oneOf("mode", PACINGS, fallback ? "fallback" : quota.pacing),
  },
  backlog_drained_timestamp_seconds: {
    help: "When the backlog will be drained at the quota's rate; no sample while that is unknown.",
    read: (readings) => seconds(waitingIn(readings) === 0 ? readings.now : sentAt(readings)),
  },
  sending_stopped: {
    help: "1 while all sending is stopped for this reason.",
    labels: ["reason"],
    read: (readings) => {
      const stopped = stopReasonsIn(readings);
      return STOP_REASONS.map((reason): Sample => [{ reason }, stopped.has(reason) ? 1 : 0]);
    },
  },
  auth_state: {
    help: "1 for the current state of the service's access check.",
    labels: ["state"],
    read: ({ denial }) => {
      const states = ["ok", ...DENIAL_CAUSES.map((cause) => `${cause}_denied`)];
      return oneOf("state", states, denial === undefined ? "ok" : `${denial.cause}_denied`);
    },
  },
  token_issued_timestamp_seconds: {
    help: "When the service token was issued; 0 if SERVICE_TOKEN_ISSUED_AT is not set.",
    read: ({ tokenIssuedAt }) => seconds(tokenIssuedAt) ?? 0,
  },
  source_last_event_timestamp_seconds: {
    help: "When the newest event of a source arrived.",
    labels: ["source"],
    read: ({ sources }) =>
      Object.entries(sources)
        .slice(0, MAX_SOURCES)
        .map(([source, at]): Sample => [{ source }, at / 1000]),
  },
  source_silent_after_seconds: {
    help: "After how long without an event a source counts as silent: 1.5 times its longest pause of two weeks, at least an hour; a day if it was heard for less than an hour, and then for a week only.",
    labels: ["source"],
    read: (readings) =>
      Object.entries(silentAfter(readings))
        .slice(0, MAX_SOURCES)
        .map(([source, afterMs]): Sample => [{ source }, afterMs / 1000]),
  },
  source_clock_ahead_seconds: {
    help: "By how much the clock of a source was ahead of Redis' clock within the last hour; else 0.",
    labels: ["source"],
    read: ({ now, sources, clocksAhead }) =>
      Object.keys(sources)
        .slice(0, MAX_SOURCES)
        .map((source): Sample => [{ source }, clockAheadNow(now, clocksAhead[source]) / 1000]),
  },
  processes: {
    help: "Running processes that have each role; no sample while Redis rejects writes, heartbeats among them.",
    labels: ["role"],
    read: (readings) =>
      areProcessesUnknown(readings)
        ? undefined
        : ROLES.map((role): Sample => {
            return [
              { role },
              readings.processes.filter(({ roles }) => roles.includes(role)).length,
            ];
          }),
  },
  audit_act_age_seconds: {
    help: "Age of the oldest act of an operator that has no line in an audit trail yet; 0 when there is none.",
    read: ({ now, actWaitsSince }) => ageSeconds(now, actWaitsSince),
  },
  drift_relations: {
    help: "Relations that differed from the CRM at the last comparison and were not repaired by its plan; no sample before the first one.",
    labels: ["kind"],
    read: ({ reconciliation }) =>
      reconciliation && DRIFT_KINDS.map((kind): Sample => [{ kind }, reconciliation.drift[kind]]),
  },
  reconcile_last_run_timestamp_seconds: {
    help: "When the CRM was last compared with the service; no sample before the first time.",
    read: ({ reconciliation }) => seconds(reconciliation?.at),
  },
  reconcile_last_duration_seconds: {
    help: "How long the last comparison of the CRM with the service took; no sample before the first time.",
    read: ({ reconciliation }) => seconds(reconciliation?.tookMs),
  },
  reconcile_last_result: {
    help: "1 for how the last reconciliation that a daemon began has ended (stopped: a guard asks for a person); no sample before the first one.",
    labels: ["source", "result"],
    read: ({ reconcileRuns }) =>
      RUN_SOURCES.flatMap((source) => {
        const run = reconcileRuns[source];
        if (run === undefined) return [];
        return RUN_RESULTS.map((result): Sample => [
          { source, result },
          result === run.result ? 1 : 0,
        ]);
      }),
  },
  reconcile_next_run_timestamp_seconds: {
    help: "When the next scheduled reconciliation is due, or was due and has not ended; no sample without RECONCILE_CRON, nor while a plan is carried out.",
    read: (readings) => seconds(nextRunAt(readings)),
  },
  reconcile_folder_files: {
    help: "Files in RECONCILE_DIR that were not compared yet, and those in its folder failed; no sample when no process looks at one.",
    labels: ["state"],
    read: ({ folder }) =>
      folder && [
        [{ state: "waiting" }, folder.waiting],
        [{ state: "failed" }, folder.failed],
      ],
  },
  reconcile_folder_blocked: {
    help: "1 when RECONCILE_DIR cannot be used, or its next file waits for something that failed; no sample when no process looks at one.",
    read: ({ folder }) => folder && (folder.trouble === undefined ? 0 : 1),
  },
  redis_durable: {
    help: "1 when Redis has AOF on, can write it, and evicts nothing; the embedded one must have its folder, too.",
    read: ({ isRedisDirGone, redis }) =>
      durabilityProblems(redis, isRedisDirGone).length === 0 ? 1 : 0,
  },
  redis_saves_failing: {
    help: "1 when the last rewrite of Redis' append-only file, or its last RDB save, failed.",
    labels: ["kind"],
    read: ({ redis: { rewritesSucceed, savesSucceed } }) => [
      [{ kind: "aof_rewrite" }, rewritesSucceed ? 0 : 1],
      [{ kind: "rdb_save" }, savesSucceed ? 0 : 1],
    ],
  },
  redis_memory_used_bytes: {
    help: "Memory that Redis uses.",
    read: ({ redis }) => redis.usedBytes,
  },
  redis_memory_limit_bytes: {
    help: "Memory that Redis may use; 0: no limit.",
    read: ({ redis }) => redis.limitBytes,
  },
};

/**
 * @returns shows these readings; undefined when they are not known: no gauge has a sample then, and none of
 *   `pingMs` when Redis did not answer
 */
export function createGauges(registry: Registry, version: string) {
  const registers = [registry];
  const define = (name: string, help: string, labelNames: readonly string[] = []) =>
    new Gauge({ name: `crmsync_${name}`, help, labelNames, registers });
  const gauges = Object.entries(GAUGES).map(([name, row]) => {
    return { row, gauge: define(name, row.help, row.labels) };
  });
  const redisUp = define("redis_up", "1 when Redis answered this scrape of this process.");
  const redisPing = define(
    "redis_ping_seconds",
    "How long Redis took to answer a ping of this process; no sample when it did not answer.",
  );
  define("build_info", "Version of crmsync; always 1.", ["version"]).set({ version }, 1);
  return ({ pingMs, readings }: TimelyReadings): void => {
    redisUp.set(pingMs === undefined ? 0 : 1);
    redisPing.remove();
    if (pingMs !== undefined) redisPing.set(pingMs / 1000);
    for (const { row, gauge } of gauges) {
      clear(gauge, row);
      const value = readings && row.read(readings);
      if (typeof value === "number") gauge.set(value);
      else for (const [labels, sample] of value ?? []) gauge.set(labels, sample);
    }
  };
}

/** `reset` would leave a gauge without labels at 0. */
function clear(gauge: Gauge, { labels }: SharedGauge): void {
  if (labels === undefined) gauge.remove();
  else gauge.reset();
}

const byLane = (read: (lane: Lane) => number): Sample[] =>
  LANES.map((lane) => [{ lane }, read(lane)]);

const oneOf = (label: string, values: readonly string[], current: string): Sample[] =>
  values.map((value) => [{ [label]: value }, value === current ? 1 : 0]);

const seconds = (ms: number | undefined): number | undefined =>
  ms === undefined ? undefined : ms / 1000;

const ageSeconds = (now: number, since: number | undefined): number =>
  since === undefined ? 0 : Math.max(0, (now - since) / 1000);

export function createScrape(
  metrics: Metrics,
  version: string,
  read: () => Promise<TimelyReadings>,
) {
  const show = createGauges(metrics.registry, version);
  let running: Promise<void> | undefined;

  async function refresh(): Promise<void> {
    const now = await read();
    show(now);
    // A source that another process knows starts at 0 here, so that its first event counts.
    for (const source of Object.keys(now.readings?.sources ?? {})) {
      metrics.eventsReceived.inc({ source: metrics.sourceLabel(source) }, 0);
    }
  }

  /** Scrapes that overlap share one reading of Redis. */
  function refreshed(): Promise<void> {
    running ??= refresh().finally(() => (running = undefined));
    return running;
  }

  return {
    /** The text of GET /metrics. */
    async text(format: MetricsFormat = "text"): Promise<string> {
      await refreshed();
      return expose(metrics.registry, format);
    },
  };
}
