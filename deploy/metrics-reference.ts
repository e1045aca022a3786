/** Generates docs/metrics.md from the metrics themselves. */
import { createMetrics } from "../src/operate/status/metrics.ts";
import { createGauges } from "../src/operate/status/gauges.ts";
import { RUN_RESULTS, RUN_SOURCES } from "../src/core/state/reconcile-runs.ts";
import { DRIFT_KINDS, type DriftKind } from "../src/core/sync/drift.ts";
import type { Readings } from "../src/operate/status/readings.ts";

/** Readings of an idle system: enough for every series of a closed set of labels. */
export const IDLE: Readings = {
  now: 0,
  pingMs: 0,
  dataDirMib: undefined,
  isRedisDirGone: false,
  inboxJobs: {},
  syncJobs: {},
  fetchJobs: {},
  oldest: { live: undefined, bulk: undefined },
  unsynced: { live: 0, bulk: 0 },
  lostChanges: 0,
  lostChange: undefined,
  terminations: { held: 0, heldBy: {}, heldSince: undefined, counted: 0, limit: 100 },
  emptied: [],
  emptyLimit: 20,
  deadLetters: 0,
  deadReasons: {},
  expiring: undefined,
  denial: undefined,
  quota: {
    limit: 0,
    remaining: 0,
    foreign: 0,
    resetAt: 0,
    allReturnedAt: 0,
    returns: [],
    stopped: undefined,
    until: undefined,
    pacing: "burst",
    hasSent: true,
    drainedAt: () => 0,
  },
  clocksAhead: {},
  clockStep: undefined,
  ownBytes: undefined,
  changesLost: {},
  undated: {},
  valueListsKnown: true,
  listsFetchedAt: undefined,
  listsLost: {},
  listsMissed: undefined,
  doubles: [],
  sources: { "": 0 },
  sourcePauses: {},
  redis: {
    version: "",
    role: "master",
    replicas: 0,
    hasEnoughReplicas: true,
    appendOnly: true,
    writesSucceed: true,
    rewritesSucceed: true,
    savesSucceed: true,
    evictionPolicy: "noeviction",
    usedBytes: 0,
    limitBytes: 0,
  },
  outage: undefined,
  warmUp: {
    state: "done",
    cursor: undefined,
    relations: 0,
    listedAt: undefined,
    coldSince: undefined,
    failure: undefined,
  },
  ledgerRows: 0,
  lastRetryAt: { live: 0, bulk: 0 },
  firstDueAt: { live: Infinity, bulk: Infinity },
  failingEvents: 0,
  paused: [],
  limited: [],
  openComparisons: [],
  comparedExports: {},
  feeding: undefined,
  isFeeding: false,
  approvals: [],
  bulkPause: undefined,
  crmChecks: {},
  pulls: {},
  fetchFailures: [],
  fallback: false,
  wentBackwardsAt: undefined,
  processes: [],
  lost: undefined,
  minutes: [],
  hours: [],
  retried: undefined,
  resealed: undefined,
  actWaitsSince: undefined,
  auditHeads: {},
  reconciliation: {
    at: 0,
    tookMs: 0,
    records: 0,
    equal: 0,
    drift: Object.fromEntries(DRIFT_KINDS.map((kind) => [kind, 0])) as Record<DriftKind, number>,
  },
  reconcileRuns: { folder: { at: 0, tookMs: 0, result: "success" } },
  reconcileNextAt: undefined,
  quality: undefined,
  folder: { waiting: 0, failed: 0 },
  notifications: { waiting: 0, failure: undefined },
  told: undefined,
  tokenIssuedAt: undefined,
};

const SOURCES = "the `source` of events; at most 50, then `other`";

/** Labels whose values come from outside, or are too many for a list. */
const OPEN_LABELS: Readonly<Record<string, string>> = {
  source: SOURCES,
  version: "of crmsync",
  field: "a field of the service or an attribute of the event, else `other` or `none`",
};

/** `/metrics` itself shows longer lists: their series start at 0. */
const MOST_VALUES = 8;

function listOf(values: Iterable<string>): string {
  const texts = [...values];
  if (texts.length > MOST_VALUES) return `one of ${texts.length}`;
  return texts.map((text) => `\`${text}\``).join(" ");
}

/** Labels of metrics whose series start only with a source, a webhook, a CRM or a mapping. */
const LATE_LABELS: Readonly<Record<string, readonly string[]>> = {
  crmsync_events_received_total: [`\`source\`: ${SOURCES}`],
  crmsync_mapping_warnings_total: [
    "`field`: a field of the service, or `other`",
    "`reason`: one of a closed set, as `crmsync preview` names them",
  ],
  crmsync_reconcile_last_result: [
    `\`source\`: ${listOf(RUN_SOURCES)}`,
    `\`result\`: ${listOf(RUN_RESULTS)}`,
  ],
  crmsync_record_fetches_total: ["`crm`: its name", "`outcome`: one of a closed set"],
  crmsync_webhook_gaps_total: ["`webhook`: its name"],
  crmsync_webhook_requests_total: ["`webhook`: its name", "`outcome`: one of a closed set"],
};

interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly { readonly labels: Readonly<Record<string, string | number>> }[];
}

export async function metricsReference(): Promise<string> {
  const { registry } = createMetrics();
  createGauges(registry, "")({ readings: IDLE, pingMs: 0 });
  const families = (await registry.getMetricsAsJSON()) as unknown as Family[];
  const own = families
    .filter(({ name }) => name.startsWith("crmsync_"))
    .toSorted((a, b) => a.name.localeCompare(b.name));
  const table = (rows: readonly Family[]) =>
    ["| metric | meaning | labels |", "| --- | --- | --- |", ...rows.map(rowOf)].join("\n");
  return `# Metrics

<!-- Generated by node deploy/generate.ts from src/operate/status/metrics.ts and src/operate/status/gauges.ts. -->

## Work of one process: sum over processes

${table(own.filter(({ type }) => type !== "gauge"))}

## Shared state: take the max over processes

All but \`crmsync_redis_up\`, \`crmsync_redis_ping_seconds\` and \`crmsync_build_info\`. What is not known has no sample.

${table(own.filter(({ type }) => type === "gauge"))}
`;
}

function rowOf({ name, help, type, values }: Family): string {
  const found = new Map<string, Set<string>>();
  for (const value of values) {
    for (const [label, text] of Object.entries(value.labels)) {
      if (label === "le") continue;
      found.set(label, (found.get(label) ?? new Set()).add(String(text)));
    }
  }
  const labels =
    LATE_LABELS[name] ??
    [...found].map(([label, texts]) => {
      const list = OPEN_LABELS[label] ?? listOf(texts);
      return `\`${label}\`: ${list}`;
    });
  return `| \`${name}\` (${type}) | ${help} | ${labels.join("; ")} |`;
}
