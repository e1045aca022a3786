/**
 * Every metric of crmsync. Counters and histograms tell what this process did (sum them over
 * processes); gauges tell shared state, read from Redis at each scrape and so equal in every
 * process (take their max). Every series is born at 0, or `increase()` would miss its first.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

const LANES = ["live", "bulk"] as const;

export const CHANGE_OUTCOMES = [
  "created",
  "updated",
  "unchanged",
  "nothing_to_terminate",
  "coalesced",
  "superseded",
  "duplicate",
  "rejected",
  "ignored",
] as const;
export type ChangeOutcome = (typeof CHANGE_OUTCOMES)[number];

const OPERATIONS = {
  create: "POST",
  update: "PUT",
  get: "GET",
  list: "GET",
  "schema-config": "GET",
} as const;

/** Answers that are counted by their status; `none` is no answer at all. */
const CODES = ["200", "201", "400", "401", "403", "404", "409", "422", "429", "500", "none"];

const QUEUE_STATES = ["wait", "prioritized", "active", "delayed", "failed"] as const;

/** Event sources counted by name; more of them share `other`, so that labels stay bounded. */
const MAX_SOURCES = 50;

export const REJECT_REASONS = [
  "bad_event",
  "unmappable",
  "invalid",
  "refused",
  "variant_changed",
  "nothing_to_restore",
  "given_up",
  "defect",
] as const;

/** Shared state as it stands in Redis. Times in seconds since the epoch, ages in seconds. */
export interface SharedState {
  readonly queueJobs: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly oldestUnsyncedAge: Readonly<Record<(typeof LANES)[number], number>>;
  readonly deadLetters: number;
  readonly quotaLimit: number;
  readonly quotaRemaining: number;
  readonly quotaReset: number;
  readonly backlogDrainedAt: number;
  readonly stopped: Readonly<Record<string, boolean>>;
  readonly authState: "ok" | "token_refused" | "address_refused";
  readonly tokenIssuedAt: number | undefined;
  readonly sources: Readonly<Record<string, number>>;
  readonly redisDurable: boolean;
}

export const STOP_REASONS = [
  "throttled",
  "token_refused",
  "address_refused",
  "unavailable",
] as const;
const AUTH_STATES = ["ok", "token_refused", "address_refused"] as const;

export function createMetrics(version: string, readShared: () => Promise<SharedState | undefined>) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: `crmsync_${name}`, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge<L>({ name: `crmsync_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: number[],
  ) => new Histogram<L>({ name: `crmsync_${name}`, help, labelNames, buckets, registers });

  const freshnessBuckets = [
    1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400,
  ];
  const waitBuckets = [0.01, 0.25, 1, 5, 15, 60, 300, 900, 1800, 3600];

  const own = {
    eventsReceived: counter("events_received_total", "Events taken from the inbox.", ["source"]),
    changes: counter("changes_total", "Ends of changes, by how they ended.", ["outcome"]),
    rejected: counter("rejected_total", "Changes that became dead letters, by reason.", ["reason"]),
    mappingWarnings: counter(
      "mapping_warnings_total",
      "Values of records that did not go into the payload as they were.",
      ["field", "reason"],
    ),
    freshness: histogram(
      "change_freshness_seconds",
      "From the first unsynced event of a record to its proof on the service.",
      ["lane"],
      freshnessBuckets,
    ),
    requests: counter("service_requests_total", "Requests to the service, by status or none.", [
      "method",
      "operation",
      "code",
    ]),
    requestDuration: histogram(
      "service_request_duration_seconds",
      "From the start of a request to the end of its answer.",
      ["method"],
      [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    ),
    permitWait: histogram(
      "permit_wait_seconds",
      "Waits for the right to one request.",
      ["lane"],
      waitBuckets,
    ),
    pauses: counter("pauses_total", "Times that all sending stopped, by reason.", ["reason"]),
    retries: counter("retries_total", "Tries put off because the service was unavailable.", [
      "reason",
    ]),
    stalled: counter("jobs_stalled_total", "Jobs taken back from a worker that died."),
  };
  for (const outcome of CHANGE_OUTCOMES) own.changes.inc({ outcome }, 0);
  for (const reason of REJECT_REASONS) own.rejected.inc({ reason }, 0);
  for (const reason of STOP_REASONS) own.pauses.inc({ reason }, 0);
  for (const lane of LANES) {
    own.freshness.zero({ lane });
    own.permitWait.zero({ lane });
  }
  for (const [operation, method] of Object.entries(OPERATIONS)) {
    for (const code of CODES) own.requests.inc({ method, operation, code }, 0);
  }
  for (const method of ["GET", "POST", "PUT"]) own.requestDuration.zero({ method });
  gauge("build_info", "Version of crmsync; always 1.", ["version"]).set({ version }, 1);

  const shared = {
    queueJobs: gauge("queue_jobs", "Jobs in each queue, by state.", ["queue", "state"]),
    oldest: gauge(
      "oldest_unsynced_age_seconds",
      "Age of the oldest change not yet on the service.",
      ["lane"],
    ),
    dead: gauge("dead_letters", "Changes that wait for a person."),
    quotaLimit: gauge("quota_limit", "Requests allowed in one hour window."),
    quotaRemaining: gauge(
      "quota_remaining",
      "Requests that may start now before the hour is spent.",
    ),
    quotaReset: gauge(
      "quota_reset_timestamp_seconds",
      "When the next spent request of the hour returns.",
    ),
    drained: gauge(
      "backlog_drained_timestamp_seconds",
      "When the backlog will be done, at today's quota.",
    ),
    stopped: gauge("sending_stopped", "1 while all sending is stopped for this reason.", [
      "reason",
    ]),
    auth: gauge("auth_state", "1 for the state that the service's doors are in.", ["state"]),
    issued: gauge(
      "token_issued_timestamp_seconds",
      "When the service token was issued; 0 if not told.",
    ),
    sourceLast: gauge("source_last_event_timestamp_seconds", "When a source was last heard of.", [
      "source",
    ]),
    durable: gauge("redis_durable", "1 when Redis has AOF on and evicts nothing."),
  };

  async function refresh(): Promise<void> {
    const state = await readShared();
    if (state === undefined) return;
    for (const [queue, states] of Object.entries(state.queueJobs)) {
      for (const name of QUEUE_STATES)
        shared.queueJobs.set({ queue, state: name }, states[name] ?? 0);
    }
    for (const lane of LANES) shared.oldest.set({ lane }, state.oldestUnsyncedAge[lane]);
    shared.dead.set(state.deadLetters);
    shared.quotaLimit.set(state.quotaLimit);
    shared.quotaRemaining.set(state.quotaRemaining);
    shared.quotaReset.set(state.quotaReset);
    shared.drained.set(state.backlogDrainedAt);
    for (const reason of STOP_REASONS)
      shared.stopped.set({ reason }, state.stopped[reason] === true ? 1 : 0);
    for (const name of AUTH_STATES)
      shared.auth.set({ state: name }, state.authState === name ? 1 : 0);
    shared.issued.set(state.tokenIssuedAt ?? 0);
    for (const [source, at] of Object.entries(state.sources).slice(0, MAX_SOURCES)) {
      shared.sourceLast.set({ source }, at);
    }
    shared.durable.set(state.redisDurable ? 1 : 0);
  }

  const sources = new Set<string>();
  return {
    ...own,
    /** The name under which a source is counted. */
    sourceLabel(source: string): string {
      if (sources.has(source)) return source;
      if (sources.size >= MAX_SOURCES) return "other";
      sources.add(source);
      return source;
    },
    contentType: registry.contentType,
    async text(): Promise<string> {
      await refresh();
      return registry.metrics();
    },
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
