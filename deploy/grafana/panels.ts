/**
 * What the dashboard shows, row by row: titles, queries, units, and the section of the runbook that
 * helps when a panel looks bad. Gauges of shared state are the same in every process: max or min,
 * never sum. What a process did itself: sum.
 */
export interface Query {
  readonly expr: string;
  readonly legend: string;
  readonly color?: string;
}

export type Threshold = readonly [from: number | null, color: "green" | "yellow" | "red" | "blue"];

export interface PanelSpec {
  readonly kind: "stat" | "lines" | "bars" | "states" | "heatmap";
  readonly title: string;
  readonly description: string;
  /** Heading in docs/runbook.md. */
  readonly runbook: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  readonly width: number;
  readonly thresholds?: readonly Threshold[];
  /** Words for values. */
  readonly values?: Readonly<Record<string, readonly [text: string, color: string]>>;
  /** What a stat says when there is no value now. */
  readonly none?: string;
  readonly max?: number;
}

export interface RowSpec {
  readonly title: string;
  readonly height: number;
  readonly panels: readonly PanelSpec[];
}

/** Shared state of the chosen tenant, and the work of the chosen processes. */
const JOB = 'job=~"$job"';
const OWN = 'job=~"$job", instance=~"$instance"';

const rate = (metric: string, labels = ""): string =>
  `rate(crmsync_${metric}{${OWN}${labels}}[$__rate_interval])`;
const increase = (metric: string, labels = ""): string =>
  `increase(crmsync_${metric}{${OWN}${labels}}[$__rate_interval])`;
const shared = (metric: string, labels = "", by = ""): string =>
  `max${by === "" ? "" : ` by (${by})`} (crmsync_${metric}{${JOB}${labels}})`;
/** Jobs that wait in queues before records are staged. */
const inQueues = (queues: string): string =>
  `sum(${shared("queue_jobs", `, queue=~"${queues}", state!="failed"`, "queue, state")})`;
const quantile = (q: number, metric: string, labels: string, by: string): string =>
  `histogram_quantile(${q}, sum by (${by}le) (rate(crmsync_${metric}_bucket{${OWN}${labels}}[5m])))`;

const ON_TIME = 'le=~"900(\\\\.0)?"';

/** Answers in the words of what they mean to us. */
const ANSWERS: readonly (readonly [legend: string, codes: string, color: string])[] = [
  ["accepted", "200|201", "green"],
  ["400/422 input refused", "400|422", "yellow"],
  ["401 token refused", "401", "red"],
  ["403 address refused", "403", "dark-red"],
  ["404/409 not as the ledger said", "404|409", "blue"],
  ["429 throttled", "429", "purple"],
  ["5xx", "5..", "orange"],
  ["no answer, or another", "none|other", "dark-orange"],
];

const freshnessOf = (lane: "live" | "bulk", width: number): PanelSpec => ({
  kind: "lines",
  title: `Freshness, ${lane}`,
  description: `From the first unsynced event of a ${lane} record to its proof on the service. What never arrives is not in here: see the oldest change that waits.`,
  runbook: lane === "live" ? "CrmsyncFreshnessFastBurn" : "CrmsyncChangeStuck",
  unit: "s",
  width,
  queries: [0.5, 0.95, 0.99].map((q) => ({
    expr: quantile(q, "change_freshness_seconds", `, lane="${lane}"`, ""),
    legend: `p${q * 100}`,
  })),
});

export const ROWS: readonly RowSpec[] = [
  {
    title: "Is it healthy?",
    height: 4,
    panels: [
      {
        kind: "stat",
        title: "Oldest waiting",
        description:
          "Age of the oldest live change that is not on the service; 0 when there is none.",
        runbook: "CrmsyncChangeStuck",
        unit: "s",
        width: 3,
        none: "unknown",
        queries: [{ expr: shared("oldest_unsynced_age_seconds", ', lane="live"'), legend: "live" }],
        thresholds: [
          [null, "green"],
          [300, "yellow"],
          [900, "red"],
        ],
      },
      {
        kind: "stat",
        title: "On time, last 1 h",
        description:
          "Part of the last hour's live changes that were on the service within 15 minutes (objective: 99 %).",
        runbook: "CrmsyncFreshnessFastBurn",
        unit: "percentunit",
        width: 3,
        none: "no changes",
        queries: [
          {
            expr: `sum(rate(crmsync_change_freshness_seconds_bucket{${JOB}, lane="live", ${ON_TIME}}[1h])) / (sum(rate(crmsync_change_freshness_seconds_count{${JOB}, lane="live"}[1h])) > 0)`,
            legend: "on time",
          },
        ],
        thresholds: [
          [null, "red"],
          [0.98, "yellow"],
          [0.99, "green"],
        ],
      },
      {
        kind: "stat",
        title: "Quota left",
        description: "Requests of the hour that may still start.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "percentunit",
        width: 3,
        none: "unknown",
        queries: [
          { expr: `${shared("quota_remaining")} / ${shared("quota_limit")}`, legend: "left" },
        ],
        thresholds: [
          [null, "red"],
          [0.02, "yellow"],
          [0.1, "green"],
        ],
      },
      {
        kind: "stat",
        title: "Next returns",
        description:
          "When the next spent request of the hour may be sent again; now, when none is spent.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "dateTimeFromNow",
        width: 3,
        none: "unknown",
        queries: [{ expr: `1000 * ${shared("quota_reset_timestamp_seconds")}`, legend: "at" }],
        thresholds: [[null, "blue"]],
      },
      {
        kind: "stat",
        title: "Drained at",
        description:
          "When everything that waits now will be on the service, at the quota's rate. Nobody can tell while sending is stopped until somebody acts, and while Redis is away.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "dateTimeAsLocalNoDateIfToday",
        width: 3,
        none: "unknown",
        queries: [{ expr: `1000 * ${shared("backlog_drained_timestamp_seconds")}`, legend: "at" }],
        thresholds: [[null, "blue"]],
      },
      {
        kind: "stat",
        title: "Waiting",
        description:
          "Changes that are not on the service: records of both lanes, events of the inbox, and records still to be asked of their CRM.",
        runbook: "Start here",
        unit: "short",
        width: 3,
        none: "unknown",
        queries: [
          {
            expr: `sum(${shared("unsynced_records", "", "lane")}) + ${inQueues("crm-events|fetch")}`,
            legend: "changes",
          },
        ],
        thresholds: [[null, "blue"]],
      },
      {
        kind: "stat",
        title: "Dead letters",
        description: "Changes that wait for a person: crmsync dead list.",
        runbook: "CrmsyncDeadLetters",
        unit: "short",
        width: 3,
        none: "unknown",
        queries: [{ expr: shared("dead_letters"), legend: "letters" }],
        thresholds: [
          [null, "green"],
          [1, "yellow"],
        ],
      },
      {
        kind: "stat",
        title: "Door",
        description: "Whether the service lets us in. While it does not, every change is kept.",
        runbook: "CrmsyncTokenDenied",
        unit: "short",
        width: 3,
        none: "unknown",
        queries: [
          {
            expr: `${shared("auth_state", ', state="token_denied"')} + 2 * ${shared("auth_state", ', state="address_denied"')}`,
            legend: "door",
          },
        ],
        values: {
          "0": ["open", "green"],
          "1": ["token refused", "red"],
          "2": ["address refused", "red"],
        },
        thresholds: [[null, "green"]],
      },
    ],
  },
  {
    title: "What keeps changes from moving",
    height: 7,
    panels: [
      {
        kind: "states",
        title: "Stops",
        description:
          "Red while this reason holds all changes back; each has its section in the runbook. Nothing is drawn while nobody can tell.",
        runbook: "Start here",
        unit: "short",
        width: 24,
        queries: [
          { expr: shared("sending_stopped", "", "reason"), legend: "{{reason}}" },
          { expr: `${shared("quota_remaining")} < bool 1`, legend: "quota_spent" },
          { expr: `(max(up{${JOB}}) or vector(0)) < bool 1`, legend: "no_process_answers" },
          { expr: `1 - min(crmsync_redis_up{${OWN}})`, legend: "redis_away" },
          { expr: `${shared("processes", ', role="sync"')} < bool 1`, legend: "no_sync_process" },
          {
            expr: `${shared("processes", ', role="intake"')} < bool 1`,
            legend: "no_intake_process",
          },
          {
            expr: `${shared("queue_jobs", ', queue="fetch", state="delayed"')} > bool 0`,
            legend: "records_not_fetched",
          },
        ],
        values: { "0": ["", "#2a3b2f"], "1": ["stopped", "red"] },
        thresholds: [
          [null, "green"],
          [1, "red"],
        ],
      },
    ],
  },
  {
    title: "Freshness",
    height: 8,
    panels: [
      {
        kind: "heatmap",
        title: "Freshness of live changes",
        description:
          "How many changes arrived after how long (event to proof); the upper end of each bucket in seconds.",
        runbook: "CrmsyncFreshnessSlowBurn",
        unit: "s",
        width: 12,
        queries: [
          {
            expr: `sum by (le) (${increase("change_freshness_seconds_bucket", ', lane="live"')})`,
            legend: "{{le}}",
          },
        ],
      },
      {
        kind: "lines",
        title: "Oldest change that waits",
        description: "What does not arrive is in no histogram; it is here.",
        runbook: "CrmsyncChangeStuck",
        unit: "s",
        width: 12,
        queries: [{ expr: shared("oldest_unsynced_age_seconds", "", "lane"), legend: "{{lane}}" }],
      },
      freshnessOf("live", 12),
      freshnessOf("bulk", 12),
    ],
  },
  {
    title: "Quota and requests",
    height: 8,
    panels: [
      {
        kind: "lines",
        title: "Quota left",
        description: "Requests of the hour that may still start, and the limit.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "short",
        width: 8,
        queries: [
          { expr: shared("quota_remaining"), legend: "left" },
          { expr: shared("quota_limit"), legend: "limit" },
        ],
      },
      {
        kind: "bars",
        title: "Requests by answer",
        description:
          "Requests to the service, by what it answered. Every one costs one of the hour's requests.",
        runbook: "CrmsyncServiceUnavailable",
        unit: "short",
        width: 8,
        queries: ANSWERS.map(([legend, codes, color]) => ({
          expr: `sum(${increase("service_requests_total", `, code=~"${codes}"`)})`,
          legend,
          color,
        })),
      },
      {
        kind: "lines",
        title: "Duration of requests",
        description: "From the start of a request to the end of its answer.",
        runbook: "CrmsyncServiceUnavailable",
        unit: "s",
        width: 8,
        queries: [0.5, 0.99].map((q) => ({
          expr: quantile(q, "service_request_duration_seconds", "", "method, "),
          legend: `{{method}} p${q * 100}`,
        })),
      },
      {
        kind: "lines",
        title: "Waits for a permit",
        description:
          "How long the right to one request was waited for: near 0 while bursts are allowed, else what the quota asks for.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "s",
        width: 8,
        queries: [0.5, 0.99].map((q) => ({
          expr: quantile(q, "permit_wait_seconds", "", "lane, "),
          legend: `{{lane}} p${q * 100}`,
        })),
      },
      {
        kind: "states",
        title: "Pacing",
        description:
          "probing: bursts are tried one by one; free: they are allowed; steady: spread evenly, as configured; fallback: spread evenly after an unforeseen 429.",
        runbook: "CrmsyncPacingSteady",
        unit: "short",
        width: 8,
        queries: [{ expr: shared("quota_pacing", "", "mode"), legend: "{{mode}}" }],
        values: { "0": ["", "#2a3b2f"], "1": ["now", "blue"] },
        thresholds: [
          [null, "green"],
          [1, "blue"],
        ],
      },
      {
        kind: "bars",
        title: "Stops and tries put off",
        description:
          "Times that all sending stopped, and single tries that were put off because the service was unavailable.",
        runbook: "CrmsyncServiceUnavailable",
        unit: "short",
        width: 8,
        queries: [
          { expr: `sum by (reason) (${increase("pauses_total")})`, legend: "stop: {{reason}}" },
          { expr: `sum(${increase("retries_total")})`, legend: "tries put off" },
        ],
      },
    ],
  },
  {
    title: "Changes and queues",
    height: 8,
    panels: [
      {
        kind: "bars",
        title: "How changes ended",
        description:
          "coalesced, unchanged and superseded cost no request; rejected ones are dead letters.",
        runbook: "CrmsyncDeadLetters",
        unit: "short",
        width: 8,
        queries: [
          { expr: `sum by (outcome) (${increase("changes_total")})`, legend: "{{outcome}}" },
        ],
      },
      {
        kind: "lines",
        title: "Records that wait",
        description: "Records with a change that is not on the service, by lane.",
        runbook: "CrmsyncQuotaExhausted",
        unit: "short",
        width: 8,
        queries: [{ expr: shared("unsynced_records", "", "lane"), legend: "{{lane}}" }],
      },
      {
        kind: "lines",
        title: "Jobs in the queues",
        description:
          "crm-events is the inbox, sync points at records. active stays 0 to a few; delayed are tries put off.",
        runbook: "CrmsyncRoleMissing",
        unit: "short",
        width: 8,
        queries: [
          { expr: shared("queue_jobs", "", "queue, state"), legend: "{{queue}} {{state}}" },
        ],
      },
      {
        kind: "bars",
        title: "New dead letters by reason",
        description: "crmsync dead list tells field, rule and remedy of each.",
        runbook: "CrmsyncDeadLetters",
        unit: "short",
        width: 12,
        queries: [
          { expr: `sum by (reason) (${increase("rejected_total")})`, legend: "{{reason}}" },
        ],
      },
      {
        kind: "bars",
        title: "Jobs taken back from dead processes",
        description: "Rises when a process was killed, or stood still, in the middle of its work.",
        runbook: "CrmsyncJobsStalled",
        unit: "short",
        width: 12,
        queries: [{ expr: `sum(${increase("jobs_stalled_total")})`, legend: "jobs" }],
      },
    ],
  },
  {
    title: "Intake and mapping",
    height: 8,
    panels: [
      {
        kind: "lines",
        title: "Events by source",
        description: "Events taken from the inbox per second.",
        runbook: "CrmsyncSourceSilent",
        unit: "cps",
        width: 6,
        queries: [
          { expr: `sum by (source) (${rate("events_received_total")})`, legend: "{{source}}" },
        ],
      },
      {
        kind: "lines",
        title: "Silence of sources",
        description: "Time since a source was last heard of.",
        runbook: "CrmsyncSourceSilent",
        unit: "s",
        width: 6,
        queries: [
          {
            expr: `time() - ${shared("source_last_event_timestamp_seconds", "", "source")}`,
            legend: "{{source}}",
          },
        ],
      },
      {
        kind: "bars",
        title: "Senders' requests by answer",
        description:
          "What POST /events and /webhooks answered (202 taken, 400 not an event, 401 wrong token or signature, 503 Redis is away or full), what became of webhooks, and records asked of the CRM itself.",
        runbook: "CrmsyncSenderErrors",
        unit: "short",
        width: 6,
        queries: [
          {
            expr: `sum by (code) (${increase("intake_requests_total")})`,
            legend: "{{code}}",
          },
          {
            expr: `sum by (webhook, outcome) (${increase("webhook_requests_total")})`,
            legend: "{{webhook}}: {{outcome}}",
          },
          {
            expr: `sum by (webhook) (${increase("webhook_gaps_total")})`,
            legend: "{{webhook}} lost changes",
          },
          {
            expr: `sum by (crm, outcome) (${increase("record_fetches_total")})`,
            legend: "asked {{crm}}: {{outcome}}",
          },
        ],
      },
      {
        kind: "bars",
        title: "Mapping: values left out or changed",
        description:
          "The ten most frequent reasons why a value of a record did not go into the payload as it was.",
        runbook: "CrmsyncDeadLetters",
        unit: "short",
        width: 6,
        queries: [
          {
            expr: `topk(10, sum by (field, reason) (${increase("mapping_warnings_total")}))`,
            legend: "{{field}}: {{reason}}",
          },
        ],
      },
    ],
  },
  {
    title: "Process",
    height: 7,
    panels: [
      {
        kind: "lines",
        title: "Processes by role",
        description: "Processes that say they are there, by role; every role needs one.",
        runbook: "CrmsyncRoleMissing",
        unit: "short",
        width: 6,
        queries: [{ expr: shared("processes", "", "role"), legend: "{{role}}" }],
      },
      {
        kind: "lines",
        title: "Memory",
        description: "Resident memory of each process.",
        runbook: "CrmsyncJobsStalled",
        unit: "bytes",
        width: 6,
        queries: [{ expr: `process_resident_memory_bytes{${OWN}}`, legend: "{{instance}}" }],
      },
      {
        kind: "lines",
        title: "CPU",
        description: "Part of one core that each process uses.",
        runbook: "CrmsyncJobsStalled",
        unit: "percentunit",
        width: 6,
        queries: [
          {
            expr: `rate(process_cpu_seconds_total{${OWN}}[$__rate_interval])`,
            legend: "{{instance}}",
          },
        ],
      },
      {
        kind: "lines",
        title: "Event loop delay, p99",
        description:
          "How long a process stood still; above a second leases and locks begin to suffer.",
        runbook: "CrmsyncJobsStalled",
        unit: "s",
        width: 6,
        queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${OWN}}`, legend: "{{instance}}" }],
      },
      {
        kind: "lines",
        title: "Memory of Redis",
        description: "Used, and the limit at which Redis refuses writes (0: none).",
        runbook: "CrmsyncRedisNearlyFull",
        unit: "bytes",
        width: 8,
        queries: [
          { expr: shared("redis_memory_used_bytes"), legend: "used" },
          { expr: shared("redis_memory_limit_bytes"), legend: "limit" },
        ],
      },
      {
        kind: "states",
        title: "Redis",
        description: "Whether it answers each process, and whether it is set up to lose nothing.",
        runbook: "CrmsyncRedisNotDurable",
        unit: "short",
        width: 8,
        queries: [
          { expr: `min by (instance) (crmsync_redis_up{${OWN}})`, legend: "answers {{instance}}" },
          { expr: `min(crmsync_redis_durable{${JOB}})`, legend: "durable" },
        ],
        values: { "0": ["no", "red"], "1": ["yes", "green"] },
        thresholds: [
          [null, "red"],
          [1, "green"],
        ],
      },
      {
        kind: "stat",
        title: "Age of the token",
        description: "Since SERVICE_TOKEN_ISSUED_AT; it should be replaced every 90 days.",
        runbook: "CrmsyncTokenOld",
        unit: "s",
        width: 4,
        none: "not told",
        queries: [
          {
            expr: `time() - (${shared("token_issued_timestamp_seconds")} != 0)`,
            legend: "age",
          },
        ],
        thresholds: [
          [null, "green"],
          [80 * 86_400, "yellow"],
          [90 * 86_400, "red"],
        ],
      },
      {
        kind: "stat",
        title: "Versions that run",
        description:
          "Processes of each version; two versions side by side are a roll-out that is not finished.",
        runbook: "CrmsyncDown",
        unit: "short",
        width: 4,
        none: "none",
        queries: [
          { expr: `count by (version) (crmsync_build_info{${OWN}})`, legend: "{{version}}" },
        ],
        thresholds: [[null, "blue"]],
      },
    ],
  },
];

export interface AnnotationSpec {
  readonly name: string;
  readonly expr: string;
  readonly color: string;
  readonly text: string;
}

export const ANNOTATIONS: readonly AnnotationSpec[] = [
  {
    name: "Restarts",
    expr: `changes(process_start_time_seconds{${OWN}}[2m]) > 0`,
    color: "purple",
    text: "{{instance}} was started",
  },
  {
    name: "429s",
    expr: `sum(increase(crmsync_service_requests_total{${JOB}, code="429"}[1m])) > 0`,
    color: "orange",
    text: "the service answered 429",
  },
  {
    name: "Stops",
    expr: `max by (reason) (crmsync_sending_stopped{${JOB}}) == 1`,
    color: "red",
    text: "sending stopped: {{reason}}",
  },
];
