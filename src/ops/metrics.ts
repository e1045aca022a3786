/**
 * Counters and histograms: what this process did (sum them over processes). The gauges of shared
 * state are in src/status/gauges.ts. Every series with known labels starts at 0, because
 * `increase()` misses a series that appears with its first increment.
 */
import { collectDefaultMetrics, Counter, Histogram, Registry } from "prom-client";
import { DEAD_REASONS } from "../sync/dead-letter.ts";
import { LANES } from "../sync/lane.ts";
import { CHANGE_OUTCOMES, PAUSE_REASONS } from "../sync/outcomes.ts";
import { UNAVAILABLE_REASONS } from "../sync/service-reply.ts";

/** The service's operations and their HTTP methods. */
const OPERATIONS = {
  create: "POST",
  update: "PUT",
  get: "GET",
  list: "GET",
  "schema-config": "GET",
} as const;

/** Statuses counted one by one; `none`: no response came; `other`: any other status. */
const SERVICE_CODES = "200 201 400 401 403 404 409 422 429 500 502 503 504 none other".split(" ");

/** Endpoints of HTTP intake, and the statuses with which they respond. */
const INTAKE_ROUTES = ["events", "webhooks"] as const;
const INTAKE_CODES = "200 202 204 400 401 413 415 429 500 503 other".split(" ");

/** Statuses that tell senders to correct something on their side. */
const SENDER_ERRORS: ReadonlySet<string> = new Set(["400", "401", "413", "415"]);

const RETRY_REASONS: readonly string[] = [...UNAVAILABLE_REASONS, "other"];

/** Event sources counted by name; more of them share `other`, to keep the label bounded. */
const MAX_SOURCES = 50;
const MAX_SOURCE_LENGTH = 100;

const FRESHNESS_BUCKETS_S = [
  1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400,
];
const WAIT_BUCKETS_S = [0.01, 0.25, 1, 5, 15, 60, 300, 900, 1800, 3600];
const REQUEST_BUCKETS_S = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const own = defineOwn(registry);
  startAtZero(own);
  return {
    ...own,
    registry,
    sourceLabel: createSourceLabels(),

    countRequest(method: string, operation: string, status: number | undefined): void {
      const code = status === undefined ? "none" : String(status);
      own.requests.inc({ method, operation, code: knownOr(SERVICE_CODES, code, "other") });
    },

    /** @param path as the route was registered, never as it was requested. */
    countIntakeResponse(path: string | undefined, status: number): void {
      const route = INTAKE_ROUTES.find((name) => path?.startsWith(`/${name}`));
      if (route === undefined) return;
      own.intakeRequests.inc({ route, code: knownOr(INTAKE_CODES, String(status), "other") });
    },

    countRetry(reason: string): void {
      own.retries.inc({ reason: knownOr(RETRY_REASONS, reason, "other") });
    },

    /** How the changes that this process worked on have ended so far, by outcome. */
    async endedChanges(): Promise<ReadonlyMap<string, number>> {
      const { values } = await own.changes.get();
      return new Map(values.map(({ labels, value }) => [String(labels.outcome), value]));
    },

    /** Relations found gone so far, as `relation_gone`. */
    async goneRelations(): Promise<ReadonlyMap<string, number>> {
      const { values } = await own.relationsGone.get();
      return new Map(values.map(({ value }) => ["relation_gone", value]));
    },

    /** Requests of senders answered with 4xx so far, by `sender_error <route> <code>`. */
    async senderErrors(): Promise<ReadonlyMap<string, number>> {
      const { values } = await own.intakeRequests.get();
      const errors = values.filter(({ labels }) => SENDER_ERRORS.has(String(labels.code)));
      return new Map(
        errors.map(({ labels, value }) => [`sender_error ${labels.route} ${labels.code}`, value]),
      );
    },
  };
}

function defineOwn(registry: Registry) {
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: `crmsync_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: number[],
  ) => new Histogram<L>({ name: `crmsync_${name}`, help, labelNames, buckets, registers });
  return {
    eventsReceived: counter("events_received_total", "Events taken from the inbox.", ["source"]),
    intakeRequests: counter(
      "intake_requests_total",
      "Requests of senders to HTTP intake, by endpoint and response.",
      ["route", "code"],
    ),
    webhooks: counter("webhook_requests_total", "Webhook requests of CRMs, by how they ended.", [
      "webhook",
      "outcome",
    ]),
    webhookGaps: counter(
      "webhook_gaps_total",
      "Times that a CRM reported lost changes. Only an export or a reconciliation finds those.",
      ["webhook"],
    ),
    fetches: counter("record_fetches_total", "Records requested from a CRM, by how it ended.", [
      "crm",
      "outcome",
    ]),
    mappingWarnings: counter(
      "mapping_warnings_total",
      "Values of records that the mapping did not carry over unchanged.",
      ["field", "reason"],
    ),
    changes: counter("changes_total", "Changes that ended, by outcome.", ["outcome"]),
    rejected: counter("rejected_total", "Changes that became dead letters, by reason.", ["reason"]),
    freshness: histogram(
      "change_freshness_seconds",
      "Time from the first unsynced event of a record to its proof on the service.",
      ["lane"],
      FRESHNESS_BUCKETS_S,
    ),
    requests: counter("service_requests_total", "Requests to the service, by response status.", [
      "method",
      "operation",
      "code",
    ]),
    requestDuration: histogram(
      "service_request_duration_seconds",
      "Time from the start of a request to the end of its response.",
      ["method"],
      REQUEST_BUCKETS_S,
    ),
    permitWait: histogram(
      "permit_wait_seconds",
      "Time spent waiting for a permit for one request.",
      ["lane"],
      WAIT_BUCKETS_S,
    ),
    pauses: counter("pauses_total", "Pauses of all sending, by reason.", ["reason"]),
    retries: counter("retries_total", "Retries scheduled because the service was unavailable.", [
      "reason",
    ]),
    relationsGone: counter(
      "relations_gone_total",
      "Relations that the ledger knew, and that the service does not have any more.",
    ),
    stalled: counter("jobs_stalled_total", "Jobs taken back from a worker that died."),
  };
}

function startAtZero(own: ReturnType<typeof defineOwn>): void {
  for (const outcome of CHANGE_OUTCOMES) own.changes.inc({ outcome }, 0);
  for (const reason of DEAD_REASONS) own.rejected.inc({ reason }, 0);
  for (const reason of PAUSE_REASONS) own.pauses.inc({ reason }, 0);
  for (const reason of RETRY_REASONS) own.retries.inc({ reason }, 0);
  for (const lane of LANES) {
    own.freshness.zero({ lane });
    own.permitWait.zero({ lane });
  }
  for (const [operation, method] of Object.entries(OPERATIONS)) {
    for (const code of SERVICE_CODES) own.requests.inc({ method, operation, code }, 0);
  }
  for (const method of new Set(Object.values(OPERATIONS))) own.requestDuration.zero({ method });
  for (const route of INTAKE_ROUTES) {
    for (const code of INTAKE_CODES) own.intakeRequests.inc({ route, code }, 0);
  }
}

/** @returns the name under which a source is counted. */
function createSourceLabels(): (source: string) => string {
  const known = new Set<string>();
  return (source) => {
    if (known.has(source)) return source;
    if (known.size >= MAX_SOURCES || source.length > MAX_SOURCE_LENGTH) return "other";
    known.add(source);
    return source;
  };
}

const knownOr = (known: readonly string[], value: string, other: string): string =>
  known.includes(value) ? value : other;
