/**
 * Counters and histograms: what this process did (sum them over processes). The gauges of shared
 * state are in src/operate/status/gauges.ts. Every series with known labels starts at 0, because
 * `increase()` misses a series that appears with its first increment: not the hundreds of mapping warnings, most of
 * which never come, nor webhooks and fetches of CRMs that are not configured.
 */
import { collectDefaultMetrics, Counter, Histogram, Registry } from "prom-client";
import { DEAD_REASONS, REJECTED_BY_SYNC, type DeadReason } from "../../core/sync/dead-letter.ts";
import { LANES, type Lane } from "../../core/event/lane.ts";
import {
  CHANGE_OUTCOMES,
  PAUSE_REASONS,
  EVENT_FIELDS,
  problemFields,
  RECORD_FIELDS,
} from "../../core/sync/outcomes.ts";
import type { Problem } from "../../core/event/problem.ts";
import { UNAVAILABLE_REASONS } from "../../core/sync/service-reply.ts";
import { durationName } from "../../base/duration-buckets.ts";
import { formatFor, type MetricsFormat } from "../../base/exposition.ts";
import { NOTIFY_RESULTS } from "../../base/notify-results.ts";
import { MAX_SOURCES } from "../../core/state/sources.ts";
import { CHECKING_ROLES, type CheckingRole } from "./slowness.ts";
import { OVERLOADS } from "../../base/overload.ts";
import type { SpanIds, Tracing } from "../../base/tracing.ts";

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
const INTAKE_CODES = "200 202 204 400 401 409 413 415 429 500 503 other".split(" ");

/** Statuses that tell senders to correct something on their side. */
const SENDER_ERRORS: ReadonlySet<string> = new Set(["400", "401", "413", "415"]);

/** The same for webhooks: outcomes that tell senders to correct something, as in their own metric. */
const WEBHOOK_ERRORS: ReadonlySet<string> = new Set(["unauthorised", "bad_body", "partly_stored"]);

const RETRY_REASONS: readonly string[] = [...UNAVAILABLE_REASONS, "other"];

/** Reasons whose problems name a field, and the fields that they are counted by. */
const REJECTED_FIELDS: ReadonlyMap<string, readonly string[]> = new Map<
  DeadReason,
  readonly string[]
>([
  ["bad_event", EVENT_FIELDS],
  ["unmappable", RECORD_FIELDS],
  ["invalid", RECORD_FIELDS],
]);

/** Requests about one relation: the durations of lists tell nothing about the service's speed. */
const TIMED_OPERATIONS: ReadonlySet<string> = new Set(["create", "update", "get"]);

/** Longer names of event sources share `other`. */
const MAX_SOURCE_LENGTH = 100;

const FRESHNESS_BUCKETS_S = [
  1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400,
];
const WAIT_BUCKETS_S = [0.01, 0.25, 1, 5, 15, 60, 300, 900, 1800, 3600];
const REQUEST_BUCKETS_S = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export type Metrics = ReturnType<typeof createMetrics>;

/** @param spanIds what names the active span in an exemplar; undefined without tracing. */
export function createMetrics(spanIds?: Tracing["spanIds"]) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const own = defineOwn(registry, spanIds !== undefined);
  startAtZero(own);
  const durations = new Map<string, number>();
  const told = new Map<string, number>();
  const tell = (name: string) => void told.set(name, (told.get(name) ?? 0) + 1);
  return {
    ...own,
    registry,
    sourceLabel: createSourceLabels(),

    /** How the metrics are written; OpenMetrics only where there are exemplars to carry. */
    formatFor: (accept: string | undefined): MetricsFormat =>
      spanIds === undefined ? "text" : formatFor(accept),

    observeFreshness(lane: Lane, seconds: number): void {
      if (spanIds === undefined) own.freshness.observe({ lane }, seconds);
      else
        own.freshness.observe({
          labels: { lane },
          value: seconds,
          exemplarLabels: { ...spanIds() },
        });
    },

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

    countPassed(role: CheckingRole): void {
      own.checks.inc({ role, result: "passed" });
    },

    /** Counts by the first field that is wrong, so that each change counts once. */
    countRejected(reason: string, problems: readonly Problem[] = []): void {
      const [field = ""] = problemFields(problems);
      const known = REJECTED_FIELDS.get(reason) ?? [];
      const label = known.length === 0 || field === "" ? "none" : knownOr(known, field, "other");
      own.rejected.inc({ reason, field: label });
      const isBySync = (REJECTED_BY_SYNC as ReadonlySet<string>).has(reason);
      own.checks.inc({ role: isBySync ? "sync" : "intake", result: "rejected" });
    },

    /** Counts a change that was created or updated, for the status. */
    countSent: (lane: Lane): void => tell(`sent ${lane}`),

    /** Counts an event that has the source and id of another one, for the status. */
    countReused: (source: string): void => tell(`id_reused ${source}`),

    /** Counts an event that is older than what is known and says something else, for the status. */
    countOlder: (source: string): void => tell(`older ${source}`),

    /** Counts a value that the mapping could not use, for the status. */
    countLeftOut: (field: string): void => tell(`left_out ${field}`),

    /** Counts how long the service took for a request about one relation that succeeded. */
    timeReply(operation: string, status: number | undefined, durationMs: number): void {
      if (!TIMED_OPERATIONS.has(operation) || status === undefined || status >= 300) return;
      const name = durationName(durationMs);
      durations.set(name, (durations.get(name) ?? 0) + 1);
    },

    /**
     * What this process shares with the others through Redis: its counts so far, by `<outcome>`,
     * `checked <role> <result>`, `rejected <reason> <field>`, `duration <bucket>`, `relation_gone`,
     * `relation_unknown`, `not_stored`, `sent <lane>`, `id_reused <source>`, `older <source>`, `left_out <field>`,
     * `pull_<missed or undated> <crm>`, `sender_error <route> <code>`, `webhook_error <webhook> <outcome>` and
     * `fetched <crm> <found or dropped>`.
     */
    async sharedCounts(): Promise<ReadonlyMap<string, number>> {
      return new Map([
        ...(await countsOf(own.changes, ({ outcome }) => String(outcome))),
        ...(await countsOf(own.checks, ({ role, result }) => `checked ${role} ${result}`)),
        ...(await countsOf(own.rejected, ({ reason, field }) => `rejected ${reason} ${field}`)),
        ...(await countsOf(own.relationsGone, () => "relation_gone")),
        ...(await countsOf(own.relationsUnknown, () => "relation_unknown")),
        ...(await countsOf(own.relationsNotStored, () => "not_stored")),
        ...(await countsOf(own.pulledChanges, ({ crm, result }) =>
          result === "missed" || result === "undated" ? `pull_${result} ${crm}` : undefined,
        )),
        ...(await countsOf(own.intakeRequests, ({ route, code }) =>
          SENDER_ERRORS.has(String(code)) ? `sender_error ${route} ${code}` : undefined,
        )),
        ...(await countsOf(own.webhooks, ({ webhook, outcome }) =>
          WEBHOOK_ERRORS.has(String(outcome)) ? `webhook_error ${webhook} ${outcome}` : undefined,
        )),
        ...(await countsOf(own.fetches, ({ crm, outcome }) =>
          outcome === "found" || outcome === "dropped" ? `fetched ${crm} ${outcome}` : undefined,
        )),
        ...durations,
        ...told,
      ]);
    },
  };
}

function defineOwn(registry: Registry, withExemplars: boolean) {
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
    httpRefused: counter(
      "http_refused_total",
      "Requests refused and connections cut to protect the process, by reason.",
      ["reason"],
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
    pulledChanges: counter(
      "pull_changes_total",
      "Changes that a CRM told when it was asked: new ones, those of them of which no webhook had told, known ones, and those without a usable time.",
      ["crm", "result"],
    ),
    mappingWarnings: counter(
      "mapping_warnings_total",
      "Values of records that the mapping did not carry over unchanged.",
      ["field", "reason"],
    ),
    changes: counter("changes_total", "Changes that ended, by outcome.", ["outcome"]),
    rejected: counter(
      "rejected_total",
      "Changes that became dead letters, by reason and by the first field that was wrong.",
      ["reason", "field"],
    ),
    deadLettersExpired: counter(
      "dead_letters_expired_total",
      "Dead letters that were deleted after DEAD_LETTER_DAYS.",
    ),
    checks: counter(
      "checks_total",
      "Changes that were checked by intake (mapping and rules) or by sync (the service's reply), by result.",
      ["role", "result"],
    ),
    freshness: freshnessHistogram(registry, withExemplars),
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
    relationsNotStored: counter(
      "relations_not_stored_total",
      "Changes that the service had confirmed, and did not have when they were read minutes later: one an hour is, and the first after a start, a denial or an outage.",
    ),
    relationsUnknown: counter(
      "relations_unknown_total",
      "Deletions without a record whose crmCode no event had ever named, and that the service does not have.",
    ),
    frozen: counter(
      "frozen_seconds_total",
      "Time in which this process did not run although it should have.",
    ),
    auditLines: counter(
      "audit_lines_total",
      "Lines that this process has written to its audit trail.",
    ),
    notifications: counter(
      "notifications_total",
      "Notifications by how one try ended, given up after six hours, or left out because too many waited.",
      ["result"],
    ),
    stalled: counter("jobs_stalled_total", "Jobs taken back from a worker that died."),
  };
}

function freshnessHistogram(registry: Registry, enableExemplars: boolean) {
  const histogram = new Histogram<"lane" | keyof SpanIds>({
    name: "crmsync_change_freshness_seconds",
    help: "Time from the first unsynced event of a record to its proof on the service.",
    labelNames: ["lane"],
    buckets: FRESHNESS_BUCKETS_S,
    enableExemplars,
    // With exemplars, the constructor accepts no registry of the text format, which leaves them out.
    registers: [],
  });
  registry.registerMetric(histogram);
  return histogram;
}

function startAtZero(own: ReturnType<typeof defineOwn>): void {
  for (const outcome of CHANGE_OUTCOMES) own.changes.inc({ outcome }, 0);
  for (const reason of DEAD_REASONS) {
    const fields = REJECTED_FIELDS.get(reason);
    const labels = fields === undefined ? ["none"] : [...fields, "other", "none"];
    for (const field of labels) own.rejected.inc({ reason, field }, 0);
  }
  for (const role of CHECKING_ROLES) {
    for (const result of ["passed", "rejected"]) own.checks.inc({ role, result }, 0);
  }
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
  for (const result of NOTIFY_RESULTS) own.notifications.inc({ result }, 0);
  for (const reason of OVERLOADS) own.httpRefused.inc({ reason }, 0);
  for (const route of INTAKE_ROUTES) {
    for (const code of INTAKE_CODES) own.intakeRequests.inc({ route, code }, 0);
  }
}

/** @returns the name under which a source is counted; further ones share `other`, to keep the label bounded. */
function createSourceLabels(): (source: string) => string {
  const known = new Set<string>();
  return (source) => {
    if (known.has(source)) return source;
    if (known.size >= MAX_SOURCES || source.length > MAX_SOURCE_LENGTH) return "other";
    known.add(source);
    return source;
  };
}

/** A counter's values so far, by a name that its labels give; without a name they are left out. */
async function countsOf<L extends string>(
  counter: Counter<L>,
  nameOf: (labels: Readonly<Partial<Record<L, string | number>>>) => string | undefined,
): Promise<[string, number][]> {
  const { values } = await counter.get();
  return values.flatMap(({ labels, value }) => {
    const name = nameOf(labels);
    return name === undefined ? [] : [[name, value] as [string, number]];
  });
}

const knownOr = (known: readonly string[], value: string, other: string): string =>
  known.includes(value) ? value : other;
