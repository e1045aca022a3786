/**
 * Every metric of crmsync. Counters and histograms tell what this process did (sum them over
 * processes); gauges tell shared state, read from Redis at each scrape and so equal in every
 * process (take their max). Every counter is born at 0, or `increase()` would miss its first;
 * a gauge that cannot be known now (Redis is away, sending is stopped) has no sample, since an
 * old value would be a lie.
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

const OPERATIONS = {
  create: "POST",
  update: "PUT",
  get: "GET",
  list: "GET",
  "schema-config": "GET",
} as const;

/** Answers that are counted by their status; `none` is no answer at all, `other` any other. */
const CODES = "200 201 400 401 403 404 409 422 429 500 502 503 504 none other".split(" ");

/** Doors for events over HTTP, and what they answer. */
const INTAKE_ROUTES = ["events", "webhooks"] as const;
const INTAKE_CODES = "200 202 204 400 401 413 415 429 500 503 other".split(" ");

/** Answers that tell a sender that it does something wrong. */
const REFUSALS: ReadonlySet<string> = new Set(["400", "401", "413", "415"]);

/** Why a try was put off; the client's own words for it. */
const RETRY_REASONS = (
  "server_error timeout connect_timeout connection_refused reset dns tls network proxy truncated_body " +
  "oversized_body empty_body wrong_content_type not_json unexpected_body undeclared_success " +
  "redirect undeclared_status stale_permit closed slept other"
).split(" ");

export const QUEUE_STATES = ["wait", "prioritized", "active", "delayed", "failed"] as const;

/** Event sources counted by name; more of them share `other`, so that labels stay bounded. */
const MAX_SOURCES = 50;
const MAX_SOURCE_LENGTH = 100;

export const REJECT_REASONS = [
  "bad_event",
  "unmappable",
  "not_fetched",
  "invalid",
  "service_rejected",
  "variant_changed",
  "nothing_to_restore",
  "given_up",
  "defect",
] as const;

export const STOP_REASONS = [
  "throttled",
  "token_denied",
  "address_denied",
  "unavailable",
  "warming_up",
  "queue_paused",
  "redis_full",
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Stops that an answer of the service brings; the others are not events of a process. */
const PAUSE_REASONS = ["throttled", "token_denied", "address_denied", "unavailable"] as const;

const AUTH_STATES = ["ok", "token_denied", "address_denied"] as const;

/** `fallback`: steady pacing that was not configured, after a 429 that our count did not foresee. */
const PACINGS = ["probing", "free", "steady", "fallback"] as const;

export const ROLES = ["http", "intake", "sync"] as const;

/** Shared state as it stands in Redis. Times in seconds since the epoch, ages in seconds. */
export interface SharedState {
  readonly queueJobs: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly oldestUnsyncedAge: Readonly<Record<(typeof LANES)[number], number>>;
  readonly unsynced: Readonly<Record<(typeof LANES)[number], number>>;
  readonly deadLetters: number;
  readonly quotaLimit: number;
  readonly quotaRemaining: number;
  readonly quotaReset: number;
  readonly pacing: (typeof PACINGS)[number];
  /** Undefined while nobody can tell: sending is stopped until somebody acts. */
  readonly backlogDrainedAt: number | undefined;
  readonly stopped: ReadonlySet<StopReason>;
  readonly authState: (typeof AUTH_STATES)[number];
  readonly tokenIssuedAt: number | undefined;
  readonly sources: Readonly<Record<string, number>>;
  readonly redisDurable: boolean;
  readonly redisUsedBytes: number;
  /** 0: no limit. */
  readonly redisLimitBytes: number;
  /** How many processes play each role. */
  readonly processes: Readonly<Record<(typeof ROLES)[number], number>>;
}

export function createMetrics(version: string, readShared: () => Promise<SharedState | undefined>) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: `crmsync_${name}`, help, labelNames, registers });
  const forgets: (() => void)[] = [];
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) => {
    const one = new Gauge<L>({ name: `crmsync_${name}`, help, labelNames, registers });
    // `reset` would leave a gauge without labels at 0.
    forgets.push(() => (labelNames.length > 0 ? one.reset() : one.remove()));
    return one;
  };
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
    intakeRequests: counter(
      "intake_requests_total",
      "Requests of senders, by the door that they came to and its answer.",
      ["route", "code"],
    ),
    changes: counter("changes_total", "Ends of changes, by how they ended.", ["outcome"]),
    rejected: counter("rejected_total", "Changes that became dead letters, by reason.", ["reason"]),
    mappingWarnings: counter(
      "mapping_warnings_total",
      "Values of records that did not go into the payload as they were.",
      ["field", "reason"],
    ),
    webhooks: counter("webhook_requests_total", "Requests of CRMs' webhooks, by how they ended.", [
      "webhook",
      "outcome",
    ]),
    webhookGaps: counter(
      "webhook_gaps_total",
      "Times that a CRM said that it lost changes, which only a reconciliation finds.",
      ["webhook"],
    ),
    fetches: counter("record_fetches_total", "Records asked of a CRM, by how that ended.", [
      "crm",
      "outcome",
    ]),
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
  for (const reason of PAUSE_REASONS) own.pauses.inc({ reason }, 0);
  for (const reason of RETRY_REASONS) own.retries.inc({ reason }, 0);
  for (const lane of LANES) {
    own.freshness.zero({ lane });
    own.permitWait.zero({ lane });
  }
  for (const [operation, method] of Object.entries(OPERATIONS)) {
    for (const code of CODES) own.requests.inc({ method, operation, code }, 0);
  }
  for (const route of INTAKE_ROUTES) {
    for (const code of INTAKE_CODES) own.intakeRequests.inc({ route, code }, 0);
  }
  for (const method of ["GET", "POST", "PUT"]) own.requestDuration.zero({ method });
  const buildInfo = gauge("build_info", "Version of crmsync; always 1.", ["version"]);

  const shared = {
    queueJobs: gauge("queue_jobs", "Jobs in each queue, by state.", ["queue", "state"]),
    oldest: gauge(
      "oldest_unsynced_age_seconds",
      "Age of the oldest change not yet on the service; 0 when there is none.",
      ["lane"],
    ),
    unsynced: gauge("unsynced_records", "Records with a change not yet on the service.", ["lane"]),
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
    pacing: gauge(
      "quota_pacing",
      "1 for the way in which requests follow each other; fallback: steady after an unforeseen 429.",
      ["mode"],
    ),
    drained: gauge(
      "backlog_drained_timestamp_seconds",
      "When the backlog will be done at the quota's rate; no sample while nobody can tell.",
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
    processes: gauge("processes", "Processes that play each role.", ["role"]),
    durable: gauge("redis_durable", "1 when Redis has AOF on, can write it, and evicts nothing."),
    redisUsed: gauge("redis_memory_used_bytes", "Memory that Redis uses."),
    redisLimit: gauge("redis_memory_limit_bytes", "Memory that Redis may use; 0 is no limit."),
  };
  const redisUp = gauge("redis_up", "1 when Redis answered this scrape of this process.");

  function show(state: SharedState): void {
    for (const [queue, states] of Object.entries(state.queueJobs)) {
      for (const name of QUEUE_STATES)
        shared.queueJobs.set({ queue, state: name }, states[name] ?? 0);
    }
    const one = <L extends string>(
      of: Gauge<L>,
      label: L,
      names: readonly string[],
      is: string,
    ) => {
      for (const name of names) of.set({ [label]: name } as Record<L, string>, name === is ? 1 : 0);
    };
    for (const lane of LANES) {
      shared.oldest.set({ lane }, state.oldestUnsyncedAge[lane]);
      shared.unsynced.set({ lane }, state.unsynced[lane]);
    }
    shared.dead.set(state.deadLetters);
    shared.quotaLimit.set(state.quotaLimit);
    shared.quotaRemaining.set(state.quotaRemaining);
    shared.quotaReset.set(state.quotaReset);
    one(shared.pacing, "mode", PACINGS, state.pacing);
    if (state.backlogDrainedAt !== undefined) shared.drained.set(state.backlogDrainedAt);
    for (const reason of STOP_REASONS)
      shared.stopped.set({ reason }, state.stopped.has(reason) ? 1 : 0);
    one(shared.auth, "state", AUTH_STATES, state.authState);
    shared.issued.set(state.tokenIssuedAt ?? 0);
    for (const [source, at] of Object.entries(state.sources).slice(0, MAX_SOURCES)) {
      shared.sourceLast.set({ source }, at);
      // A source that another process, or a former one, has heard of is born at 0 here too.
      own.eventsReceived.inc({ source: sourceLabel(source) }, 0);
    }
    for (const role of ROLES) shared.processes.set({ role }, state.processes[role]);
    shared.durable.set(state.redisDurable ? 1 : 0);
    shared.redisUsed.set(state.redisUsedBytes);
    shared.redisLimit.set(state.redisLimitBytes);
  }

  const sources = new Set<string>();
  /** The name under which a source is counted. */
  function sourceLabel(source: string): string {
    if (sources.has(source)) return source;
    if (sources.size >= MAX_SOURCES || source.length > MAX_SOURCE_LENGTH) return "other";
    sources.add(source);
    return source;
  }

  /** A scrape that comes while another one is answered gets the same text. */
  let scrape: Promise<string> | undefined;
  async function write(): Promise<string> {
    const state = await readShared();
    for (const forget of forgets) forget();
    buildInfo.set({ version }, 1);
    redisUp.set(state === undefined ? 0 : 1);
    if (state !== undefined) show(state);
    return registry.metrics();
  }

  return {
    ...own,
    sourceLabel,
    registry,
    contentType: registry.contentType,
    requested(method: string, operation: string, status: number | undefined): void {
      const code = status === undefined ? "none" : String(status);
      own.requests.inc({ method, operation, code: CODES.includes(code) ? code : "other" });
    },
    /** @param path as it was registered, never as it was asked for. */
    answered(path: string | undefined, status: number): void {
      const route = INTAKE_ROUTES.find((name) => path?.startsWith(`/${name}`));
      if (route === undefined) return;
      const code = String(status);
      own.intakeRequests.inc({ route, code: INTAKE_CODES.includes(code) ? code : "other" });
    },
    putOff(reason: string): void {
      own.retries.inc({ reason: RETRY_REASONS.includes(reason) ? reason : "other" });
    },
    /** How the changes that this process worked on have ended so far, by outcome. */
    async ended(): Promise<ReadonlyMap<string, number>> {
      const { values } = await own.changes.get();
      return new Map(values.map(({ labels, value }) => [String(labels.outcome), value]));
    },
    /** How many requests of senders this process has refused so far, by `refused <route> <code>`. */
    async refusals(): Promise<ReadonlyMap<string, number>> {
      const { values } = await own.intakeRequests.get();
      const refused = values.filter(({ labels }) => REFUSALS.has(String(labels.code)));
      return new Map(
        refused.map(({ labels, value }) => [`refused ${labels.route} ${labels.code}`, value]),
      );
    },
    text(): Promise<string> {
      scrape ??= write().finally(() => {
        scrape = undefined;
      });
      return scrape;
    },
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
